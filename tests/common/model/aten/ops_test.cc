#include "common/model/aten/ops.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>

#include <limits>
#include <random>

#include "common/model/aten/linear.h"
#include "gtest/gtest.h"
#include "tests/common/model/same_rows.h"

namespace espalier {
namespace {

bool SameBits(const at::Tensor& a, const at::Tensor& b) {
  auto span = [](const at::Tensor& t) {
    return absl::MakeConstSpan(t.const_data_ptr<float>(), t.numel());
  };
  return a.sizes() == b.sizes() &&
         testing::SameRows(span(a.contiguous()), span(b.contiguous()));
}

RowTree RandomRowTree(std::mt19937& random, int32_t rows, int64_t prefix) {
  std::vector<int32_t> parents = {kPrefixParent};
  for (int32_t row = 1; row < rows; ++row) {
    parents.push_back(static_cast<int32_t>(random() % (row + 1)) - 1);
  }
  return BuildRowTree(parents, prefix);
}

TEST(Linear, IsTheProductWithTheBias) {
  at::manual_seed(1);
  const at::Tensor w = at::randn({40, 24}), b = at::randn({40});
  const Linear linear(w, b);
  for (int64_t rows : {1, 5, 6, 47, 48, 49, 200}) {
    const at::Tensor x = at::randn({rows, 24});
    const at::Tensor expected =
        (x.to(at::kDouble).matmul(w.t().to(at::kDouble)) + b.to(at::kDouble))
            .to(at::kFloat);
    EXPECT_TRUE(at::allclose(linear(x), expected, 1e-4, 1e-5)) << rows;
  }
}

// Shapes of the default model, of the tiny ones, and odd ones.
TEST(Linear, RowsHaveTheSameBitsInEveryBatch) {
  at::manual_seed(2);
  const std::vector<std::pair<int64_t, int64_t>> shapes = {
      {576, 960}, {576, 3072}, {1536, 576}, {48, 80}, {48, 258},
      {32, 96},   {128, 32},   {100, 77},   {7, 3}};
  for (const auto& [in, out] : shapes) {
    const Linear linear(at::randn({out, in}), {});
    const at::Tensor x = at::randn({256, in});
    const at::Tensor all = linear(x);
    for (int64_t rows : {1, 2, 3, 5, 6, 7, 8, 12, 13, 24, 25, 48, 49, 100}) {
      EXPECT_TRUE(
          SameBits(linear(x.narrow(0, 0, rows)), all.narrow(0, 0, rows)))
          << in << " x " << out << ", " << rows << " rows";
    }
  }
}

TEST(Ops, RowWiseOperatorsGiveTheSameBitsInEveryBatch) {
  at::manual_seed(3);
  for (int64_t size : {48, 576, 1536}) {
    const at::Tensor x = at::randn({200, size});
    const at::Tensor w = at::randn({size}), b = at::randn({size});
    auto all = [&](const at::Tensor& rows) {
      return at::cat(
          {ops::RmsNorm(rows, w, 1e-5), ops::LayerNorm(rows, w, b, 1e-5),
           ops::Activate(rows, Activation::kSilu),
           ops::Activate(rows, Activation::kGelu),
           ops::Activate(rows, Activation::kGeluTanh)},
          /*dim=*/1);
    };
    const at::Tensor expected = all(x);
    for (int64_t rows : {1, 2, 3, 17, 100}) {
      EXPECT_TRUE(
          SameBits(all(x.narrow(0, 0, rows)), expected.narrow(0, 0, rows)))
          << size << " wide, " << rows << " rows";
    }
  }
}

TEST(Ops, DenseAttentionAgreesWithAttentionByRows) {
  std::mt19937 random(4);
  at::manual_seed(4);
  for (int32_t rows : {1, 2, 13, 40}) {
    for (int64_t prefix : {0, 1, 30}) {
      const RowTree tree = RandomRowTree(random, rows, prefix);
      const at::Tensor q = at::randn({rows, 6, 20}) / 4;
      const at::Tensor k = at::randn({2, 100, 20}), v = at::randn({2, 100, 20});
      for (int64_t window : {0, 1, 3, 29, 80}) {
        EXPECT_TRUE(at::allclose(
            ops::AttendByRows(q, k, v, tree, {.window = window}),
            ops::AttendDense(q, k, v, tree, ops::TreeBias(tree, window)), 1e-4,
            1e-5))
            << rows << " rows after " << prefix << ", window " << window;
      }
    }
  }
}

// Row 3 is at position 4, three rows below the root. With three positions, it
// sees two of its ancestors; with four, the last of the prefix as well.
TEST(Ops, AWindowIsOfPositionsOfTheRowsPath) {
  at::manual_seed(8);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const RowTree tree = BuildRowTree(std::vector<int32_t>{-1, -1, 0, 2}, 2);
  const at::Tensor q = at::randn({4, 2, 8});
  const at::Tensor k = at::randn({1, 9, 8}), v = at::randn({1, 9, 8});
  for (int64_t window : {3, 4}) {
    at::Tensor seen_k = k.clone(), seen_v = v.clone();
    for (int64_t unseen : {0, 3, window == 4 ? 0 : 1}) {
      seen_k.select(1, unseen).fill_(nan);
      seen_v.select(1, unseen).fill_(nan);
    }
    const at::Tensor row =
        ops::AttendByRows(q, seen_k, seen_v, tree, {.window = window})[3];
    EXPECT_TRUE(
        SameBits(row, ops::AttendByRows(q, k, v, tree, {.window = window})[3]));
    // A position more may have a small weight.
    EXPECT_FALSE(at::equal(
        row, ops::AttendByRows(q, k, v, tree, {.window = window + 1})[3]));
  }
}

TEST(Ops, AttentionReadsNothingThatARowDoesNotSee) {
  at::manual_seed(5);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  // Row 2 sees the prefix (2), row 0 and itself; row 1 is its sibling.
  const std::vector<int32_t> parents = {kPrefixParent, 0, 0};
  const RowTree tree = BuildRowTree(parents, /*prefix=*/2);
  const at::Tensor q = at::randn({3, 2, 8});
  at::Tensor k = at::randn({1, 9, 8}), v = at::randn({1, 9, 8});
  const at::Tensor expected = ops::AttendByRows(q, k, v, tree)[2];
  for (int64_t unseen : {3, 5, 6, 7, 8}) {
    k.select(1, unseen).fill_(nan);
    v.select(1, unseen).fill_(nan);
  }
  EXPECT_TRUE(SameBits(ops::AttendByRows(q, k, v, tree)[2], expected));
}

TEST(Ops, DenseAttentionReadsNothingBehindTheRows) {
  at::manual_seed(6);
  const RowTree tree = BuildRowTree(std::vector<int32_t>{-1, 0}, /*prefix=*/3);
  at::Tensor k = at::full({1, 16, 8}, std::numeric_limits<float>::quiet_NaN());
  at::Tensor v = k.clone();
  k.narrow(1, 0, 5).normal_();
  v.narrow(1, 0, 5).normal_();
  const at::Tensor out =
      ops::AttendDense(at::randn({2, 2, 8}), k, v, tree, ops::TreeBias(tree));
  EXPECT_FALSE(out.isnan().any().item<bool>());
}

TEST(Ops, RotationPreservesDotProductsOfEqualDistance) {
  at::manual_seed(7);
  const at::Tensor frequencies = at::tensor({1.0, 0.1, 0.01}, at::kDouble);
  const at::Tensor x = at::randn({1, 1, 6}), y = at::randn({1, 1, 6});
  auto dot = [&](int64_t a, int64_t b) {
    auto at_position = [&](const at::Tensor& t, int64_t position) {
      return ops::Rotate(t,
                         ops::MakeRotation(frequencies, /*scale=*/1,
                                           at::full({1}, position, at::kLong)));
    };
    return (at_position(x, a) * at_position(y, b)).sum().item<float>();
  };
  EXPECT_NEAR(dot(0, 5), dot(8000, 8005), 1e-3);
  EXPECT_GT(std::abs(dot(0, 5) - dot(0, 6)), 1e-3);
}

}  // namespace
}  // namespace espalier
