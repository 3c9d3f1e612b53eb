// Checks of operators against libtorch's in float64 and float32, on odd shapes
// and on values of many sizes. The bounds are what the operands' and float32's
// rounding can add up to, from the definition of the operator.
#ifndef ESPALIER_TESTS_COMMON_NN_ATEN_ORACLE_H_
#define ESPALIER_TESTS_COMMON_NN_ATEN_ORACLE_H_

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include <cmath>
#include <vector>

#include "tests/common/nn/kernel_testing.h"

namespace espalier::nn {

inline constexpr double kUnit = 0x1p-24;  // float32's rounding, relative
inline constexpr double kTiny = 1e-30;    // subnormal numbers may count as 0

inline at::Tensor ToTensor(const std::vector<float>& values,
                           const std::vector<int64_t>& shape,
                           at::ScalarType dtype) {
  return at::from_blob(const_cast<float*>(values.data()), shape, at::kFloat)
      .to(dtype, /*non_blocking=*/false, /*copy=*/true);
}

class AtenOracleTest : public KernelTest {
 protected:
  static void SetUpTestSuite() { at::set_num_threads(1); }

  // Positive and negative, of sizes 2^-12 to 2^12; a few zeros and subnormal
  // numbers.
  std::vector<float> Nasty(int64_t size) {
    std::vector<float> values = Random(size);
    for (float& value : values) {
      value = std::ldexp(value, static_cast<int>(random_() % 25) - 12);
      if (random_() % 40 == 0) value = random_() % 2 == 0 ? 0.0f : 1e-40f;
    }
    return values;
  }

  // `reference(dtype)` computes with libtorch. `bound` is that of float64: in
  // float32 the reference errs as much as we may.
  template <typename Reference>
  static void ExpectNear(const at::Tensor& got, const at::Tensor& bound,
                         const Reference& reference) {
    for (at::ScalarType dtype : {at::kDouble, at::kFloat}) {
      const at::Tensor error =
          (got.to(at::kDouble) - reference(dtype).to(at::kDouble)).abs();
      const double allowed = dtype == at::kDouble ? 1 : 2;
      const at::Tensor worst = (error / (bound + kTiny)).max();
      ASSERT_LE(worst.item<double>(), allowed) << "against " << dtype;
    }
  }
};

}  // namespace espalier::nn

#endif  // ESPALIER_TESTS_COMMON_NN_ATEN_ORACLE_H_
