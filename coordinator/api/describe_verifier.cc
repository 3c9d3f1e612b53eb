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
  const MemoryUse& memory = info.memory;
  if (memory == MemoryUse{}) return;
  v1::PeerInfo::Memory& use = *out.mutable_memory();
  use.set_kv_tokens(static_cast<uint64_t>(memory.kv_tokens));
  use.set_kv_tokens_used(static_cast<uint64_t>(memory.kv_tokens_used));
  use.set_kv_tokens_cached(static_cast<uint64_t>(memory.kv_tokens_cached));
  use.set_device_bytes(static_cast<uint64_t>(memory.device_bytes));
  use.set_device_bytes_used(static_cast<uint64_t>(memory.device_bytes_used));
}

}  // namespace espalier::coordinator
