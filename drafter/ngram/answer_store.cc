#include "drafter/ngram/answer_store.h"

#include <algorithm>
#include <iterator>

#include "common/base/check.h"

namespace espalier::drafter {

AnswerStore::AnswerStore(const Options& options)
    : half_{.max_length = options.max_length,
            .max_matches = options.max_matches,
            .window = options.max_tokens / 2} {
  ESPALIER_CHECK(options.max_tokens >= 2);
  halves_.emplace_back(half_);
}

void AnswerStore::Add(absl::Span<const TokenId> answer) {
  const size_t room = static_cast<size_t>(half_.window) - 1;
  if (answer.size() > room) answer = answer.last(room);
  if (answer.empty()) return;
  if (halves_.back().text.size() + answer.size() > room) {
    if (halves_.size() == 2) halves_.pop_front();
    halves_.emplace_back(half_);
  }
  Half& half = halves_.back();
  half.text.insert(half.text.end(), answer.begin(), answer.end());
  half.text.push_back(kBetweenAnswers);
  half.index.Extend(half.text);
}

int64_t AnswerStore::LongestMatch(absl::Span<const TokenId> context) const {
  int64_t longest = 0;
  for (const Half& half : halves_) {
    longest = std::max(longest, half.index.LongestMatch(half.text, context));
  }
  return longest;
}

std::vector<SuccessorCount> AnswerStore::SuccessorsOf(
    absl::Span<const TokenId> ngram) const {
  std::vector<SuccessorCount> counts;
  for (const Half& half : halves_) {
    AddCounts(half.index.SuccessorsOf(half.text, ngram), counts);
  }
  const auto end = std::find_if(
      counts.begin(), counts.end(),
      [](const auto& entry) { return entry.token == kBetweenAnswers; });
  if (end != counts.end()) counts.erase(end);
  return counts;
}

std::vector<TokenId> AnswerStore::Tokens() const {
  std::vector<TokenId> tokens;
  for (const Half& half : halves_) {
    tokens.insert(tokens.end(), half.text.begin(), half.text.end());
  }
  return tokens;
}

void AnswerStore::AddAll(absl::Span<const TokenId> tokens) {
  while (!tokens.empty()) {
    const auto end = std::find(tokens.begin(), tokens.end(), kBetweenAnswers);
    const size_t size = end - tokens.begin();
    Add(tokens.first(size));
    tokens.remove_prefix(std::min(size + 1, tokens.size()));
  }
}

void AddCounts(absl::Span<const SuccessorCount> more,
               std::vector<SuccessorCount>& counts) {
  for (const SuccessorCount& entry : more) {
    const auto same = std::find_if(
        counts.begin(), counts.end(),
        [&](const auto& counted) { return counted.token == entry.token; });
    if (same == counts.end()) {
      counts.push_back(entry);
    } else {
      same->count += entry.count;
    }
  }
}

}  // namespace espalier::drafter
