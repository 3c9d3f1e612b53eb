#ifndef ESPALIER_TESTS_COMMON_MODEL_SAME_ROWS_H_
#define ESPALIER_TESTS_COMMON_MODEL_SAME_ROWS_H_

#include <cmath>
#include <cstddef>

#include "absl/types/span.h"

namespace espalier::testing {

// Returns whether two rows of logits are the same bit for bit. What oneDNN does
// with AVX-512 was not examined (see linear.h): there, closeness must do.
inline bool SameRows(absl::Span<const float> a, absl::Span<const float> b) {
  if (!__builtin_cpu_supports("avx512f")) return a == b;
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!(std::abs(a[i] - b[i]) <= 1e-4f * (1 + std::abs(b[i])))) return false;
  }
  return true;
}

}  // namespace espalier::testing

#endif  // ESPALIER_TESTS_COMMON_MODEL_SAME_ROWS_H_
