#ifndef ESPALIER_COORDINATOR_CLI_FLAGS_ENDPOINT_FLAGS_H_
#define ESPALIER_COORDINATOR_CLI_FLAGS_ENDPOINT_FLAGS_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/cli/context.h"
#include "coordinator/cli/flags/connection_flags.h"
#include "coordinator/cli/flags/flag_set.h"
#include "coordinator/cli/inference_client.h"
#include "coordinator/cli/local_cluster.h"

namespace espalier::cli {

// A coordinator to call, with its cluster if that is in this process.
struct Endpoint {
  std::unique_ptr<LocalCluster> cluster;  // outlives the client
  std::unique_ptr<InferenceClient> client;
};

// Selects the coordinator of a command: --address, or --local and its settings.
class EndpointFlags {
 public:
  void AddTo(FlagSet& flags, const Places& places);

  // Returns true if --address or --local is there.
  bool is_chosen() const { return local_ || address_.has_value(); }

  // With --local, `factory` makes the cluster.
  absl::StatusOr<Endpoint> Open(const Places& places,
                                const LocalClusterFactory& factory) const;

 private:
  std::optional<std::string> address_;
  ConnectionFlags connection_;
  bool local_ = false;
  std::optional<std::string> model_;
  std::optional<std::string> device_;
  std::optional<std::string> config_;
  Repeated overrides_;
};

}  // namespace espalier::cli

#endif  // ESPALIER_COORDINATOR_CLI_FLAGS_ENDPOINT_FLAGS_H_
