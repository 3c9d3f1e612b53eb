// Attention of every backend against libtorch's.

#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "tests/common/nn/aten_oracle.h"
#include "tests/common/nn/attention_problem.h"

namespace espalier::nn {
namespace {

class AtenAttendTest : public AtenOracleTest {
 protected:
  enum class Shape { kChain, kStar, kRandom };

  AttentionProblem Draw(int64_t head_dim, int64_t prefix, int64_t rows,
                        Shape shape) {
    AttentionProblem a = {.head_dim = head_dim, .prefix = prefix};
    for (int32_t row = 0; row < rows; ++row) {
      std::vector<int32_t> seen;
      if (row > 0 && shape == Shape::kChain) seen = a.ancestors[row - 1];
      if (row > 0 && shape == Shape::kStar) seen = a.ancestors[0];
      if (row > 0 && shape == Shape::kRandom)
        seen = a.ancestors[random_() % row];
      seen.push_back(row);
      a.ancestors.push_back(std::move(seen));
    }
    // Scores of size 3 or so: many keys count.
    a.queries = Random(rows * head_dim, 6 / std::sqrt(head_dim));
    a.keys = Random(Slots(a) * head_dim, 2);
    a.values = Nasty(Slots(a) * head_dim);
    return a;
  }

  static int64_t Slots(const AttentionProblem& a) {
    return a.prefix + a.rows();
  }

  // [rows, slots]: what a row sees.
  static at::Tensor Seen(const AttentionProblem& a) {
    at::Tensor seen = at::zeros({a.rows(), Slots(a)}, at::kBool);
    seen.narrow(/*dim=*/1, 0, a.prefix).fill_(true);
    auto flags = seen.accessor<bool, 2>();
    for (int64_t row = 0; row < a.rows(); ++row) {
      for (int32_t other : a.ancestors[row])
        flags[row][a.prefix + other] = true;
    }
    return seen;
  }

  static at::Tensor Reference(const AttentionProblem& a, at::ScalarType dtype) {
    const auto batch = [&](const std::vector<float>& values, int64_t rows) {
      return ToTensor(values, {1, 1, rows, a.head_dim}, dtype);
    };
    return at::scaled_dot_product_attention(
               batch(a.queries, a.rows()), batch(a.keys, Slots(a)),
               batch(a.values, Slots(a)), Seen(a), /*dropout_p=*/0,
               /*is_causal=*/false, /*scale=*/1.0)
        .view({a.rows(), a.head_dim});
  }

  // A score that is off by e makes its weight off by e, and so do all others
  // through the sum. Then come exp, the sum and the mixture of the values. In
  // both products both sides may be split.
  at::Tensor Bound(const AttentionProblem& a) const {
    const double operands = 2 * OperandError(kernels().exact_operand);
    const auto wide = [&](const std::vector<float>& values, int64_t rows) {
      return ToTensor(values, {rows, a.head_dim}, at::kDouble);
    };
    const at::Tensor q = wide(a.queries, a.rows()), k = wide(a.keys, Slots(a));
    const at::Tensor score_error =
        std::get<0>(at::linear(q.abs(), k.abs()).max(/*dim=*/1, true)) *
        (static_cast<double>(2 * a.head_dim) * kUnit + operands);
    const at::Tensor weights =
        at::linear(q, k)
            .masked_fill(Seen(a).logical_not(), -HUGE_VAL)
            .softmax(/*dim=*/1);
    const double steps =
        static_cast<double>(4 * Slots(a) + 16) * kUnit + operands;
    return at::matmul(weights, wide(a.values, Slots(a)).abs()) *
           (2 * score_error + steps);
  }

  void Check(const AttentionProblem& a) {
    SCOPED_TRACE(absl::StrCat("head_dim ", a.head_dim, ", prefix ", a.prefix,
                              ", rows ", a.rows()));
    ExpectNear(ToTensor(Attend(kernels(), a, 0, a.rows()),
                        {a.rows(), a.head_dim}, at::kFloat),
               Bound(a),
               [&](at::ScalarType dtype) { return Reference(a, dtype); });
  }
};
INSTANTIATE_TEST_SUITE_P(Backends, AtenAttendTest,
                         ::testing::ValuesIn(UsableBackends()), BackendName);

TEST_P(AtenAttendTest, EveryHeadDimAndPrefixes) {
  for (int64_t head_dim = 8; head_dim <= 128; head_dim += 8) {
    for (int64_t prefix : {0, 1, 7, 31, 32, 33, 64, 129}) {
      Check(Draw(head_dim, prefix, /*rows=*/5, Shape::kRandom));
    }
  }
}

TEST_P(AtenAttendTest, EveryNumberOfRowsAndShapesOfTrees) {
  for (Shape shape : {Shape::kChain, Shape::kStar, Shape::kRandom}) {
    for (int64_t rows = 1; rows <= 40; ++rows) {
      for (int64_t prefix : {0, 45}) Check(Draw(64, prefix, rows, shape));
    }
  }
}

TEST_P(AtenAttendTest, LongPrefix) { Check(Draw(64, 3000, 9, Shape::kRandom)); }

}  // namespace
}  // namespace espalier::nn
