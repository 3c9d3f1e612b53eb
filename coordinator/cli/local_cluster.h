#ifndef ESPALIER_COORDINATOR_CLI_LOCAL_CLUSTER_H_
#define ESPALIER_COORDINATOR_CLI_LOCAL_CLUSTER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/cli/context.h"

namespace espalier::cli {

// A coordinator, a verifier and drafters in this process, for --local. Serves
// until it is destroyed. One thread.
class LocalCluster {
 public:
  virtual ~LocalCluster() = default;
  // Address of its coordinator, e.g. "unix:/tmp/x.sock".
  virtual std::string address() const = 0;
};

// Same meaning as the flags of `espalier serve`.
struct LocalClusterOptions {
  std::string config_file;             // empty: the defaults
  std::vector<std::string> overrides;  // "path=value"
};

// Returns when the cluster is ready to generate.
using LocalClusterFactory =
    std::function<absl::StatusOr<std::unique_ptr<LocalCluster>>(
        const LocalClusterOptions&, const Places&)>;

}  // namespace espalier::cli

#endif  // ESPALIER_COORDINATOR_CLI_LOCAL_CLUSTER_H_
