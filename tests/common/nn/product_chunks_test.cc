#include "common/nn/product_chunks.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "common/nn/packed_matrix.h"
#include "tests/common/nn/kernel_testing.h"

namespace espalier::nn {
namespace {

class ProductChunksTest : public KernelTest {};
ESPALIER_TEST_ALL_BACKENDS(ProductChunksTest);

TEST_P(ProductChunksTest, ChunksAreTheColumnsOfTheWholeProduct) {
  constexpr int64_t kInputs = 37, kRows = 9;
  for (int64_t outputs : {1, 32, 255, 256, 257, 1300}) {
    HugePageArena arena;
    ThreadPool packer({.threads = 1});
    const std::vector<float> w = Random(outputs * kInputs);
    const PackedMatrix matrix = PackedMatrix::Pack(
        {{.format = WeightSource::Format::kFloat32,
          .data = reinterpret_cast<const std::byte*>(w.data()),
          .outputs = outputs}},
        {.inputs = kInputs}, arena, packer);
    const OperandRows x(kernels(), kernels().exact_operand,
                        Random(kRows * kInputs), kInputs);
    const std::vector<float> bias =
        PackBias({Random(outputs)}, /*gated=*/false);
    LinearArgs product = x.In({.weights = matrix.view(),
                               .bias = bias.data(),
                               .out_columns = outputs});

    std::vector<float> expected(kRows * outputs);
    LinearArgs whole = product;
    whole.panel_end = matrix.panels();
    whole.out = expected.data();
    whole.out_stride = outputs;
    kernels().linear(whole);
    for (int64_t threads : {1, 2, 5}) {
      ThreadPool pool({.threads = threads});
      std::vector<float> got(kRows * outputs);
      std::vector<std::atomic<int>> taken(ProductChunkCount(outputs));
      ProductChunks(kernels(), pool)
          .Run(product, [&](const ProductChunk& chunk) {
            ASSERT_LT(chunk.thread, threads);
            ++taken[chunk.index];
            for (int64_t row = 0; row < kRows; ++row) {
              std::copy(chunk.Row(row).begin(), chunk.Row(row).end(),
                        &got[row * outputs + chunk.first_column()]);
            }
          });
      EXPECT_EQ(got, expected) << outputs << ", " << threads << " threads";
      for (const std::atomic<int>& times : taken) EXPECT_EQ(times, 1);

      const std::vector<int64_t> some = {ProductChunkCount(outputs) - 1};
      ProductChunks(kernels(), pool)
          .Run(product, some, [&](const ProductChunk& chunk) {
            ++taken[chunk.index];
            for (int64_t row = 0; row < kRows; ++row) {
              EXPECT_TRUE(
                  std::equal(chunk.Row(row).begin(), chunk.Row(row).end(),
                             &expected[row * outputs + chunk.first_column()]));
            }
          });
      EXPECT_EQ(taken.back(), 2);
      EXPECT_EQ(std::count(taken.begin(), taken.end(), 2), 1);
    }
  }
}

}  // namespace
}  // namespace espalier::nn
