#include "coordinator/api/describe_verifier.h"

#include "absl/time/time.h"

namespace espalier::coordinator {

void DescribeVerifier(const VerifierInfo& info, v1::PeerInfo& out) {
  out.set_name(info.model.name);
  out.set_state(v1::PEER_STATE_READY);
  out.set_detail(info.device);
  for (const PassCost& cost : info.pass_costs) {
    v1::PeerInfo::PassCost& point = *out.add_pass_costs();
    point.set_rows(static_cast<uint32_t>(cost.rows));
    point.set_ms(absl::ToDoubleMilliseconds(cost.time));
  }
}

}  // namespace espalier::coordinator
