// Internal to common/model: includes ATen.
#ifndef ESPALIER_COMMON_MODEL_ATEN_TENSOR_ROWS_H_
#define ESPALIER_COMMON_MODEL_ATEN_TENSOR_ROWS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>

#include "absl/types/span.h"
#include "common/base/check.h"
#include "common/model/language_model.h"

namespace espalier {

// Rows of a tensor. Whatever is asked of them is computed from the rows.
class TensorRows final : public LogitRows {
 public:
  // logits: [rows, vocab] float32, contiguous
  explicit TensorRows(at::Tensor logits) : logits_(std::move(logits)) {}

  int64_t num_rows() const override { return logits_.size(0); }
  absl::Span<const float> Row(int64_t row) const override {
    ESPALIER_CHECK(0 <= row && row < num_rows());
    const int64_t vocab = logits_.size(1);
    return {logits_.const_data_ptr<float>() + row * vocab,
            static_cast<size_t>(vocab)};
  }

 private:
  const at::Tensor logits_;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_ATEN_TENSOR_ROWS_H_
