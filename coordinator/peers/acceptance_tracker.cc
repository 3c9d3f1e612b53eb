#include "coordinator/peers/acceptance_tracker.h"

#include <algorithm>

#include "coordinator/control/accepted_length.h"

namespace espalier::coordinator {

void AcceptanceTracker::Add(const TokenTree& tree, int64_t committed_length) {
  const std::vector<int32_t> depths = tree.Depths();
  cases_.push_back({tree, committed_length,
                    *std::max_element(depths.begin(), depths.end())});
}

std::vector<int64_t> AcceptanceTracker::Settle(absl::Span<const TokenId> text) {
  std::vector<int64_t> lengths;
  std::deque<Case> open;
  for (Case& c : cases_) {
    const auto emitted = text.subspan(c.committed_length);
    const int64_t length = AcceptedLength(c.tree, emitted);
    if (length < static_cast<int64_t>(emitted.size()) || length == c.depth) {
      lengths.push_back(length);
    } else {
      open.push_back(std::move(c));
    }
  }
  cases_ = std::move(open);
  return lengths;
}

}  // namespace espalier::coordinator
