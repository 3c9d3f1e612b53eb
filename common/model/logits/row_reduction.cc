#include "common/model/logits/row_reduction.h"

#include <algorithm>
#include <cmath>

namespace espalier {

std::optional<RowPeaks> FindPeaks(const nn::ProductChunk& chunk, int64_t row,
                                  const nn::Kernels& kernels) {
  RowPeaks peaks = {.panels = chunk.panels()};
  if (!kernels.peaks({.x = chunk.Row(row).data(),
                      .size = chunk.columns,
                      .peaks = peaks.of_panel.data()})) {
    return std::nullopt;
  }
  peaks.largest = *std::max_element(peaks.of_panel.begin(),
                                    peaks.of_panel.begin() + peaks.panels);
  return peaks;
}

void FiniteCheck::Fail(const nn::ProductChunk& chunk, int64_t row) {
  const absl::Span<const float> logits = chunk.Row(row);
  const auto bad = std::find_if(logits.begin(), logits.end(),
                                [](float x) { return !std::isfinite(x); });
  const int64_t token = chunk.first_column() + (bad - logits.begin());
  FiniteCheck found;
  found.first_ = RankedToken{static_cast<TokenId>(token), *bad};
  Merge(found);
}

void FiniteCheck::Merge(const FiniteCheck& other) {
  if (!other.first_.has_value()) return;
  if (!first_.has_value() || other.first_->token < first_->token) {
    first_ = other.first_;
  }
}

absl::Status FiniteCheck::status() const {
  if (!first_.has_value()) return absl::OkStatus();
  return NotFinite(first_->token, first_->logit);
}

}  // namespace espalier
