#include "coordinator/api/unread_streams.h"

#include <algorithm>
#include <utility>

namespace espalier::coordinator {

void UnreadStreams::Add(const void* stream, size_t bytes, Cancel cancel) {
  MutexLock lock(&mutex_);
  entries_.push_back({stream, bytes, std::move(cancel)});
  bytes_ += bytes;
  while (entries_.size() > limits_.max_streams || bytes_ > limits_.max_bytes) {
    std::move(entries_.front().cancel)();
    bytes_ -= entries_.front().bytes;
    entries_.pop_front();
  }
}

void UnreadStreams::Remove(const void* stream) {
  MutexLock lock(&mutex_);
  const auto entry =
      std::find_if(entries_.begin(), entries_.end(),
                   [stream](const Entry& e) { return e.stream == stream; });
  if (entry == entries_.end()) return;
  bytes_ -= entry->bytes;
  entries_.erase(entry);
}

}  // namespace espalier::coordinator
