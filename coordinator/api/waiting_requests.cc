#include "coordinator/api/waiting_requests.h"

namespace espalier::coordinator {

WaitingRequests::Entry WaitingRequests::Add(const std::string& request_id) {
  MutexLock lock(&mutex_);
  return entries_.emplace(request_id, /*aborted=*/false);
}

bool WaitingRequests::Abort(const std::string& request_id) {
  MutexLock lock(&mutex_);
  const auto [begin, end] = entries_.equal_range(request_id);
  for (Entry entry = begin; entry != end; ++entry) entry->second = true;
  return begin != end;
}

bool WaitingRequests::IsAborted(Entry entry) const {
  MutexLock lock(&mutex_);
  return entry->second;
}

int64_t WaitingRequests::size() const {
  MutexLock lock(&mutex_);
  return static_cast<int64_t>(entries_.size());
}

bool WaitingRequests::Leave(Entry entry, absl::FunctionRef<void()> hand_over) {
  MutexLock lock(&mutex_);
  const bool aborted = entry->second;
  if (!aborted) hand_over();
  entries_.erase(entry);
  return !aborted;
}

}  // namespace espalier::coordinator
