#ifndef ESPALIER_COMMON_MODEL_LOGITS_DENSE_ROWS_H_
#define ESPALIER_COMMON_MODEL_LOGITS_DENSE_ROWS_H_

#include <algorithm>
#include <cstdint>
#include <memory>

#include "absl/types/span.h"
#include "common/base/check.h"
#include "common/model/logits/row_reduction.h"

namespace espalier {

// Stores all logits, without any reduction.
class DenseRows final : public RowReduction {
 public:
  // `some`: not every chunk will come. The logits of others are 0.
  DenseRows(int64_t rows, int64_t vocab, bool some = false)
      : rows_(rows),
        vocab_(vocab),
        logits_(some ? std::make_unique<float[]>(rows * vocab)
                     : std::make_unique_for_overwrite<float[]>(rows * vocab)) {}

  void Take(const nn::ProductChunk& chunk) override {
    for (int64_t row = 0; row < rows_; ++row) {
      std::copy_n(chunk.Row(row).data(), chunk.columns,
                  &logits_[row * vocab_ + chunk.first_column()]);
    }
  }

  // [vocab]
  absl::Span<const float> Row(int64_t row) const {
    ESPALIER_CHECK(0 <= row && row < rows_);
    return {&logits_[row * vocab_], static_cast<size_t>(vocab_)};
  }

 private:
  const int64_t rows_;
  const int64_t vocab_;
  std::unique_ptr<float[]> logits_;  // [rows, vocab]
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_LOGITS_DENSE_ROWS_H_
