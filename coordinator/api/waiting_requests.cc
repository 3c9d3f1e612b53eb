#include "coordinator/api/waiting_requests.h"

#include "common/base/status_macros.h"

namespace espalier::coordinator {

absl::StatusOr<WaitingRequests::Entry> WaitingRequests::Add(
    const std::string& request_id, const std::string& tenant,
    absl::FunctionRef<absl::Status(int64_t num_waiting)> admit) {
  MutexLock lock(&mutex_);
  const auto size = sizes_.find(tenant);
  RETURN_IF_ERROR(admit(size == sizes_.end() ? 0 : size->second));
  ++sizes_[tenant];
  return entries_.emplace(request_id, Request{.tenant = tenant});
}

bool WaitingRequests::Abort(const std::string& request_id) {
  MutexLock lock(&mutex_);
  const auto [begin, end] = entries_.equal_range(request_id);
  for (Entry entry = begin; entry != end; ++entry) entry->second.aborted = true;
  return begin != end;
}

bool WaitingRequests::IsAborted(Entry entry) const {
  MutexLock lock(&mutex_);
  return entry->second.aborted;
}

bool WaitingRequests::Leave(Entry entry, absl::FunctionRef<void()> hand_over) {
  MutexLock lock(&mutex_);
  const bool aborted = entry->second.aborted;
  if (!aborted) hand_over();
  const auto size = sizes_.find(entry->second.tenant);
  if (--size->second == 0) sizes_.erase(size);
  entries_.erase(entry);
  return !aborted;
}

}  // namespace espalier::coordinator
