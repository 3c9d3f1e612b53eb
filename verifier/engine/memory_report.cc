#include "verifier/engine/memory_report.h"

#include <algorithm>

namespace espalier::verifier {

MemoryUse MemoryReport::now() const {
  const KvUsage kv = model_.kv_usage();
  const KvGroups& groups = model_.info().kv_groups;
  return {.kv_tokens = groups.TokensIn(kv.total_tokens),
          .kv_tokens_used = groups.TokensIn(kv.used_tokens),
          .kv_tokens_cached = groups.TokensIn(kv.cached_tokens),
          .device_bytes = device_.total_bytes,
          .device_bytes_used = device_.used_bytes};
}

MemoryUse MemoryReport::published() const {
  MutexLock lock(&mutex_);
  return published_;
}

void MemoryReport::AskDevice() {
  device_ = model_.device_memory();
  if (device_.total_bytes == 0) return;
  metrics_.device_memory_ratio.Set(static_cast<double>(device_.used_bytes) /
                                   static_cast<double>(device_.total_bytes));
}

void MemoryReport::Publish(const SessionTable& sessions) {
  const KvUsage kv = model_.kv_usage();
  const MemoryUse memory = now();
  {
    MutexLock lock(&mutex_);
    published_ = memory;
  }
  const auto waiting = sessions.WithRequests();
  metrics_.sessions_without_room.Set(static_cast<double>(
      std::count_if(waiting.begin(), waiting.end(),
                    [](const Session* s) { return !s->admitted; })));
  metrics_.sessions_open.Set(static_cast<double>(sessions.size()));
  metrics_.kv_tokens_used.Set(static_cast<double>(memory.kv_tokens_used));
  metrics_.kv_tokens_cached.Set(static_cast<double>(memory.kv_tokens_cached));
  metrics_.prefix_evictions.Increment(
      static_cast<double>(model_.info().kv_groups.TokensIn(kv.evicted_tokens)) -
      metrics_.prefix_evictions.Value());
  metrics_.kv_tokens_capacity.Set(static_cast<double>(memory.kv_tokens));
  metrics_.kv_usage_ratio.Set(kv.total_tokens > 0
                                  ? static_cast<double>(kv.used_tokens) /
                                        static_cast<double>(kv.total_tokens)
                                  : 0);
}

}  // namespace espalier::verifier
