#include "verifier/distributions/logit_adjuster.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace espalier::verifier {
namespace {

constexpr float kForbidden = -std::numeric_limits<float>::infinity();

bool EndsWith(absl::Span<const TokenId> text, absl::Span<const TokenId> end) {
  return text.size() >= end.size() && text.last(end.size()) == end;
}

void ForbidOthers(absl::Span<const uint32_t> allowed,
                  absl::Span<float> logits) {
  for (size_t i = 0; i < logits.size(); ++i) {
    if ((allowed[i / 32] >> (i % 32) & 1) == 0) logits[i] = kForbidden;
  }
}

}  // namespace

LogitAdjuster::LogitAdjuster(const LogitAdjustments& adjustments,
                             absl::Span<const TokenId> committed)
    : adjustments_(adjustments) {
  const size_t prompt_length = std::min(
      committed.size(), static_cast<size_t>(adjustments.prompt_length));
  const auto output = committed.subspan(prompt_length);
  output_.assign(output.begin(), output.end());
  if (!adjustments.penalizes()) return;
  for (TokenId token : committed.first(prompt_length)) {
    uses_[token].in_prompt = true;
  }
  for (TokenId token : output_) ++uses_[token].in_output;
}

void LogitAdjuster::Apply(absl::Span<const TokenId> path,
                          absl::Span<const uint32_t> allowed,
                          absl::Span<float> logits) {
  output_.insert(output_.end(), path.begin(), path.end());
  if (allowed.empty()) {
    Forbid(logits);
  } else {
    ForbidOthers(allowed, logits);
    ForbidUnlessAll(logits);
  }
  for (const auto& [token, value] : adjustments_.bias) logits[token] += value;
  if (adjustments_.penalizes()) {
    for (TokenId token : path) ++uses_[token].in_output;
    Penalize(logits);
    for (TokenId token : path) --uses_[token].in_output;
  }
  output_.resize(output_.size() - path.size());
}

template <typename See>
void LogitAdjuster::ForEachForbidden(See see) const {
  for (const std::vector<TokenId>& word : adjustments_.bad_words) {
    const auto start = absl::MakeConstSpan(word).first(word.size() - 1);
    if (EndsWith(output_, start)) see(word.back());
  }
  if (static_cast<int64_t>(output_.size()) >= adjustments_.min_tokens) return;
  for (TokenId token : adjustments_.early_stops) see(token);
}

void LogitAdjuster::Forbid(absl::Span<float> logits) const {
  ForEachForbidden([&](TokenId token) { logits[token] = kForbidden; });
}

// Forbids nothing if no token would be left.
void LogitAdjuster::ForbidUnlessAll(absl::Span<float> logits) const {
  std::vector<std::pair<TokenId, float>> before;
  ForEachForbidden([&](TokenId token) {
    before.emplace_back(token, std::exchange(logits[token], kForbidden));
  });
  if (before.empty()) return;
  const bool any_left =
      std::any_of(logits.begin(), logits.end(),
                  [](float logit) { return logit != kForbidden; });
  if (any_left) return;
  // A token may be there twice: its first entry is its logit.
  for (auto entry = before.rbegin(); entry != before.rend(); ++entry) {
    logits[entry->first] = entry->second;
  }
}

void LogitAdjuster::Penalize(absl::Span<float> logits) const {
  for (const auto& [token, use] : uses_) {
    if (!use.in_prompt && use.in_output == 0) continue;
    float& logit = logits[token];
    if (logit == kForbidden) continue;
    logit = logit > 0 ? logit / adjustments_.repetition_penalty
                      : logit * adjustments_.repetition_penalty;
    // Only forbidden tokens are infinite.
    logit = std::clamp(logit, std::numeric_limits<float>::lowest(),
                       std::numeric_limits<float>::max());
    if (use.in_output == 0) continue;
    logit -= adjustments_.frequency_penalty * static_cast<float>(use.in_output);
    logit -= adjustments_.presence_penalty;
  }
}

}  // namespace espalier::verifier
