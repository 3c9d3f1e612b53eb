#ifndef ESPALIER_COORDINATOR_IN_PROCESS_PEERS_H_
#define ESPALIER_COORDINATOR_IN_PROCESS_PEERS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "common/trace/span.h"
#include "coordinator/rounds/coordinator.h"
#include "drafter/drafter_builder.h"
#include "espalier/v1/config.pb.h"
#include "prometheus/registry.h"

namespace espalier::coordinator {

// The drafters of a coordinator's configuration that have a type in place of an
// address, in its order: engines in this process.
class InProcessPeers {
 public:
  // `metrics` must outlive them, and `spans`, which may be null.
  // INVALID_ARGUMENT and NOT_FOUND name the field or the file.
  static absl::StatusOr<InProcessPeers> Create(
      const v1::CoordinatorConfig& config, prometheus::Registry& metrics,
      SpanSink* spans);

  // Valid while this object lives.
  std::vector<DrafterHandle> AsHandles() const;

 private:
  std::vector<drafter::BuiltDrafter> drafters_;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_IN_PROCESS_PEERS_H_
