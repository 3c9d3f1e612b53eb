#include "coordinator/local/text_agreement.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "common/base/status_macros.h"

namespace espalier::local {
namespace {

constexpr int64_t kRowsPerPass = 64;

double LogSumExp(absl::Span<const float> logits) {
  const float top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (float logit : logits) sum += std::exp(double{logit} - top);
  return top + std::log(sum);
}

int64_t Top(absl::Span<const float> logits) {
  return std::max_element(logits.begin(), logits.end()) - logits.begin();
}

// The logits of the rows `tokens`, which are committed then.
absl::StatusOr<std::unique_ptr<LogitRows>> Extend(
    LanguageModel& model, CacheId cache, absl::Span<const TokenId> tokens) {
  std::vector<int32_t> parents, path;
  for (int32_t row = 0; row < std::ssize(tokens); ++row) {
    parents.push_back(row == 0 ? kPrefixParent : row - 1);
    path.push_back(row);
  }
  const SequenceRows batch[] = {{.cache = cache,
                                 .tokens = tokens,
                                 .parents = parents,
                                 .num_logit_rows = std::ssize(tokens)}};
  ASSIGN_OR_RETURN(auto logits, model.Forward(batch));
  RETURN_IF_ERROR(model.Keep(cache, path, {}));
  return logits;
}

absl::Status CompareWindow(LanguageModel& reference, LanguageModel& model,
                           absl::Span<const TokenId> window,
                           int64_t first_position, TextAgreement& agreement) {
  const CacheId truth = reference.NewSequence(), other = model.NewSequence();
  const absl::Cleanup release = [&] {
    reference.Release(truth);
    model.Release(other);
  };
  const int64_t last = std::ssize(window) - 1;
  for (int64_t begin = 0; begin < last; begin += kRowsPerPass) {
    const int64_t count = std::min(kRowsPerPass, last - begin);
    const absl::Span<const TokenId> tokens = window.subspan(begin, count);
    ASSIGN_OR_RETURN(const auto expected, Extend(reference, truth, tokens));
    ASSIGN_OR_RETURN(const auto got, Extend(model, other, tokens));
    for (int64_t row = std::max<int64_t>(0, first_position - begin);
         row < count; ++row) {
      agreement.Add(expected->Row(row), got->Row(row), window[begin + row + 1]);
    }
  }
  return absl::OkStatus();
}

}  // namespace

void TextAgreement::Add(absl::Span<const float> reference,
                        absl::Span<const float> model, TokenId next) {
  const double from = LogSumExp(reference), to = LogSumExp(model);
  for (size_t i = 0; i < reference.size(); ++i) {
    const double p = reference[i] - from;
    kl += std::exp(p) * (p - (model[i] - to));
  }
  same_top += Top(reference) == Top(model) ? 1 : 0;
  nll += to - model[next];
  ++positions;
}

double TextAgreement::perplexity() const {
  return std::exp(nll / static_cast<double>(positions));
}

absl::Status CompareOnText(LanguageModel& reference, LanguageModel& model,
                           const WindowedText& text, TextAgreement& agreement) {
  const int64_t first_position =
      std::max<int64_t>(0, std::ssize(text.prefix) - 1);
  for (int64_t begin = 0; begin + 1 < std::ssize(text.tokens);
       begin += text.window) {
    std::vector<TokenId> window(text.prefix.begin(), text.prefix.end());
    const absl::Span<const TokenId> tokens =
        text.tokens.subspan(begin, text.window);
    window.insert(window.end(), tokens.begin(), tokens.end());
    RETURN_IF_ERROR(
        CompareWindow(reference, model, window, first_position, agreement));
  }
  return absl::OkStatus();
}

}  // namespace espalier::local
