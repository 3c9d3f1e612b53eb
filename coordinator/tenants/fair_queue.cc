#include "coordinator/tenants/fair_queue.h"

#include <algorithm>

namespace espalier::coordinator {

void FairQueue::Add(const std::string& tenant, const Place& place) {
  Line& line = lines_[tenant];
  if (line.waiting.empty()) line.charged = std::max(line.charged, charged_);
  line.waiting.insert(place);
  ++size_;
}

void FairQueue::Remove(const std::string& tenant, const Place& place) {
  size_ -= static_cast<int64_t>(lines_[tenant].waiting.erase(place));
}

std::optional<uint64_t> FairQueue::Take(
    absl::FunctionRef<bool(uint64_t ticket)> is_ready) {
  Line* best = nullptr;
  std::set<Place>::iterator next;
  for (auto& [tenant, line] : lines_) {
    const auto first = std::find_if(
        line.waiting.begin(), line.waiting.end(),
        [&](const Place& place) { return is_ready(place.second); });
    if (first == line.waiting.end()) continue;
    if (best == nullptr ||
        std::pair(line.charged, *first) < std::pair(best->charged, *next)) {
      best = &line;
      next = first;
    }
  }
  if (best == nullptr) return std::nullopt;
  charged_ = best->charged;
  const uint64_t ticket = next->second;
  best->waiting.erase(next);
  --size_;
  return ticket;
}

void FairQueue::Charge(const std::string& tenant, double use) {
  lines_[tenant].charged += use;
}

int64_t FairQueue::size(const std::string& tenant) const {
  const auto found = lines_.find(tenant);
  return found == lines_.end() ? 0 : std::ssize(found->second.waiting);
}

}  // namespace espalier::coordinator
