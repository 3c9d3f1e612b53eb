#ifndef ESPALIER_COMMON_MODEL_ATEN_ROW_ATTENTION_H_
#define ESPALIER_COMMON_MODEL_ATEN_ROW_ATTENTION_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace espalier {

// One row of one head: softmax(q K^T) V over what the row sees of the prefix
// and of its ancestors, in float32.
struct RowAttention {
  const float* q = nullptr;  // [head_dim], scaled
  const float* k = nullptr;  // [prefix + rows, head_dim]
  const float* v = nullptr;  // [prefix + rows, head_dim]
  int64_t head_dim = 0;
  int64_t prefix = 0;
  int64_t first = 0;  // position that the row sees
  float softcap = 0;  // scores s become c tanh(s / c); 0: they stay
  absl::Span<const int32_t> ancestors;  // rows, ascending, itself last

  // Writes out[head_dim]. Keys are taken one after another by position and
  // nothing else is read, so a row of a tree gets the bits that it gets when
  // its path is decoded token by token, and what lies in other rows (a NaN,
  // say) cannot reach it. `scores` is scratch.
  void Run(std::vector<float>& scores, float* out) const;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_ATEN_ROW_ATTENTION_H_
