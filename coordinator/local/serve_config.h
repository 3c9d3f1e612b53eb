#ifndef ESPALIER_COORDINATOR_LOCAL_SERVE_CONFIG_H_
#define ESPALIER_COORDINATOR_LOCAL_SERVE_CONFIG_H_

#include "absl/status/statusor.h"
#include "coordinator/cli/context.h"
#include "coordinator/cli/local_cluster.h"
#include "espalier/v1/config.pb.h"

namespace espalier::local {

// The configuration of an all-in-one server. Defaults of fields that the files
// and overrides leave out: the default model; prompt lookup, grammars, and the
// drafters that set-up put into the model's folder, or `suffix` and `recycle`
// if there are none; the address that `espalier generate` calls.
absl::StatusOr<v1::ServeConfig> LoadServeConfig(
    const cli::LocalClusterOptions& options, const cli::Places& places);

}  // namespace espalier::local

#endif  // ESPALIER_COORDINATOR_LOCAL_SERVE_CONFIG_H_
