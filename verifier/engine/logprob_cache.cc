#include "verifier/engine/logprob_cache.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace espalier::verifier {

int64_t LogprobCache::Prompt::num_bytes() const {
  return static_cast<int64_t>(
      sizeof(Prompt) + salt.size() + tokens.size() * sizeof(TokenId) +
      rows.chosen.size() * sizeof(float) +
      rows.top_tokens.size() * (sizeof(TokenId) + sizeof(float)));
}

// A row is a function of its token and of those before it.
int64_t LogprobCache::Prompt::NumShared(absl::Span<const TokenId> text) const {
  const auto same =
      std::mismatch(tokens.begin(), tokens.end(), text.begin(), text.end());
  const int64_t length = same.first - tokens.begin();
  return std::clamp<int64_t>(length - 1, 0, rows.size());
}

LogprobCache::Prompts::iterator LogprobCache::FindLongest(
    absl::Span<const TokenId> text, absl::string_view salt, int32_t top) {
  auto longest = prompts_.end();
  int64_t most = 0;
  for (auto prompt = prompts_.begin(); prompt != prompts_.end(); ++prompt) {
    if (prompt->salt != salt || prompt->rows.top != top) continue;
    const int64_t shared = prompt->NumShared(text);
    if (shared <= most) continue;
    most = shared;
    longest = prompt;
  }
  return longest;
}

LogprobRows LogprobCache::Find(absl::Span<const TokenId> text,
                               absl::string_view salt, int32_t top) {
  const auto found = FindLongest(text, salt, top);
  if (found == prompts_.end()) return {.top = top};
  prompts_.splice(prompts_.begin(), prompts_, found);
  LogprobRows rows = found->rows;
  rows.Cut(found->NumShared(text));
  return rows;
}

void LogprobCache::Offer(absl::Span<const TokenId> text, absl::string_view salt,
                         const LogprobRows& rows) {
  const auto found = FindLongest(text, salt, rows.top);
  if (found != prompts_.end()) {
    const int64_t shared = found->NumShared(text);
    if (shared >= rows.size()) return;   // it has them all
    if (shared == found->rows.size()) {  // it has nothing else
      num_bytes_ -= found->num_bytes();
      prompts_.erase(found);
    }
  }
  prompts_.push_front({.tokens = {text.begin(), text.end()},
                       .salt = std::string(salt),
                       .rows = rows});
  num_bytes_ += prompts_.front().num_bytes();
  while (num_bytes_ > max_bytes_) {
    num_bytes_ -= prompts_.back().num_bytes();
    prompts_.pop_back();
  }
}

}  // namespace espalier::verifier
