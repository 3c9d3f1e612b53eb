#include "coordinator/api/stop_text.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace espalier::coordinator {

std::string StopText::Push(TokenId token) {
  ++num_tokens_;
  return Scan(detokenizer_.Push(token));
}

std::string StopText::Scan(const std::string& piece) {
  const size_t old = held_.size();
  held_ += piece;
  if (num_tokens_ > options_.min_tokens) {
    for (size_t end = old + 1; end <= held_.size(); ++end) {
      const std::string* stop = StopAt(end);
      if (stop == nullptr) continue;
      found_ = *stop;
      const size_t shown =
          options_.include_stop_string ? end : end - stop->size();
      return std::exchange(held_, "").substr(0, shown);
    }
  }
  const size_t shown = held_.size() - HeldBytes();
  std::string text = held_.substr(0, shown);
  held_.erase(0, shown);
  return text;
}

// The longest stop string that ends at byte `end` of the held text.
const std::string* StopText::StopAt(size_t end) const {
  const std::string* longest = nullptr;
  for (const std::string& stop : options_.stop_strings) {
    if (stop.size() > end || (longest && stop.size() <= longest->size())) {
      continue;
    }
    if (held_.compare(end - stop.size(), stop.size(), stop) == 0) {
      longest = &stop;
    }
  }
  return longest;
}

// Size of the longest end of the held text that begins a stop string.
size_t StopText::HeldBytes() const {
  size_t longest = 0;
  for (const std::string& stop : options_.stop_strings) {
    size_t size = std::min(stop.size() - 1, held_.size());
    while (size > longest &&
           held_.compare(held_.size() - size, size, stop, 0, size) != 0) {
      --size;
    }
    longest = std::max(longest, size);
  }
  return longest;
}

std::string StopText::Flush() {
  if (found_) return "";
  return std::exchange(held_, "") + detokenizer_.Flush();
}

}  // namespace espalier::coordinator
