// Products of integers, on all backends: equal to the model, to the bit.
#include <cmath>
#include <vector>

#include "common/nn/packed_matrix.h"
#include "gtest/gtest.h"
#include "tests/common/nn/block_model.h"
#include "tests/common/nn/kernel_testing.h"

namespace espalier::nn {
namespace {

using Format = WeightSource::Format;

constexpr Format kFormats[] = {Format::kQ8_0, Format::kQ4_0, Format::kQ4_1,
                               Format::kQ5_0, Format::kQ5_1, Format::kQ4K,
                               Format::kQ5K,  Format::kQ6K};

constexpr OperandType kOperands[] = {OperandType::kBlocks,
                                     OperandType::kFineBlocks};

class BlockProductTest : public KernelTest {
 protected:
  // Returns blocks of random bits whose scales are finite.
  std::vector<uint8_t> RandomBlocks(Format format, int64_t units) {
    const int64_t bytes = RowBytes(format, UnitInputs(format));
    std::vector<uint8_t> blocks(units * bytes);
    for (uint8_t& byte : blocks) byte = static_cast<uint8_t>(random_());
    for (int64_t unit = 0; unit < units; ++unit) {
      uint8_t* const block = &blocks[unit * bytes];
      // The upper byte of a float16: 2^-8 or so.
      const auto tame = [](uint8_t& high) { high = (high & 0x83) | 0x1C; };
      tame(block[format == Format::kQ6K ? 209 : 1]);
      if (format != Format::kQ6K && BlockFormatOf(format).minimums) {
        tame(block[3]);
      }
    }
    return blocks;
  }

  static std::vector<std::vector<ModelWeight>> Unpack(
      Format format, const std::vector<uint8_t>& blocks, int64_t inputs) {
    GgufModel model(blocks);
    const int64_t outputs =
        static_cast<int64_t>(blocks.size()) / RowBytes(format, inputs);
    std::vector<std::vector<ModelWeight>> rows(outputs);
    for (auto& row : rows) {
      while (static_cast<int64_t>(row.size()) < inputs) {
        const std::vector<ModelWeight> unit = model.Next(format);
        row.insert(row.end(), unit.begin(), unit.end());
      }
    }
    return rows;
  }

  PackedMatrix Pack(const WeightSource& source, int64_t inputs,
                    const BlockFormat& format) {
    return PackedMatrix::Pack(
        {source},
        {.inputs = inputs, .type = WeightType::kBlocks, .format = format},
        arena_, pool_);
  }
  PackedMatrix Pack(Format format, const std::vector<uint8_t>& blocks,
                    int64_t inputs) {
    return Pack({.format = format,
                 .data = reinterpret_cast<const std::byte*>(blocks.data()),
                 .outputs = static_cast<int64_t>(blocks.size()) /
                            RowBytes(format, inputs)},
                inputs, BlockFormatOf(format));
  }

  void ExpectModel(const PackedMatrix& matrix,
                   const std::vector<std::vector<ModelWeight>>& weights,
                   const std::vector<float>& x) {
    for (OperandType operand : kOperands) {
      ExpectModel(matrix, weights, x, operand);
    }
  }
  void ExpectModel(const PackedMatrix& matrix,
                   const std::vector<std::vector<ModelWeight>>& weights,
                   const std::vector<float>& x, OperandType operand) {
    const int64_t inputs = matrix.inputs(), outputs = matrix.out_columns();
    const OperandRows rows(kernels(), operand, x, inputs);
    LinearArgs args = rows.In({.weights = matrix.view(),
                               .panel_end = matrix.panels(),
                               .out_stride = outputs,
                               .out_columns = outputs});
    std::vector<float> out(args.rows * outputs);
    args.out = out.data();
    kernels().linear(args);
    const BlockFormat& format = matrix.view().format;
    for (int64_t row = 0; row < args.rows; ++row) {
      const ModelRow model(
          {x.begin() + row * inputs, x.begin() + (row + 1) * inputs},
          /*fine=*/operand == OperandType::kFineBlocks);
      for (int64_t i = 0; i < outputs; ++i) {
        ASSERT_EQ(
            out[row * outputs + i],
            ModelProduct(weights[i], model, format.group, format.minimums))
            << "row " << row << " of " << args.rows << ", output " << i;
      }
    }
  }

  HugePageArena arena_;
  ThreadPool pool_{{.threads = 1}};
};
ESPALIER_TEST_ALL_BACKENDS_AND_AMX_MODEL(BlockProductTest);

TEST_P(BlockProductTest, EqualsTheModelInEveryFormatOfAFile) {
  for (Format format : kFormats) {
    for (int64_t inputs : {256, 768}) {
      for (int64_t outputs : {1, 33, 64}) {
        const std::vector<uint8_t> blocks =
            RandomBlocks(format, outputs * inputs / UnitInputs(format));
        const PackedMatrix matrix = Pack(format, blocks, inputs);
        const auto weights = Unpack(format, blocks, inputs);
        for (int64_t rows :
             {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 17, 35, 70}) {
          ExpectModel(matrix, weights, Random(rows * inputs, 3));
        }
      }
    }
  }
}

TEST_P(BlockProductTest, RowsOfTheMatrixAreTheFilesWeights) {
  for (Format format : kFormats) {
    constexpr int64_t kInputs = 512, kOutputs = 40;
    const std::vector<uint8_t> blocks =
        RandomBlocks(format, kOutputs * kInputs / UnitInputs(format));
    const PackedMatrix matrix = Pack(format, blocks, kInputs);
    const auto weights = Unpack(format, blocks, kInputs);
    for (int64_t row = 0; row < kOutputs; ++row) {
      float values[kInputs];
      matrix.Row(row, values);
      for (int64_t k = 0; k < kInputs; ++k) {
        const ModelWeight& w = weights[row][k];
        ASSERT_EQ(values[k], w.scale * static_cast<float>(w.code) + w.minimum);
      }
    }
  }
}

// Files mix formats: the parts of a product may have different ones.
TEST_P(BlockProductTest, PartsOfDifferentFormatsKeepTheirWeights) {
  constexpr int64_t kInputs = 256, kOutputs = 48;
  const Format pairs[][2] = {
      {Format::kQ4K, Format::kQ6K},   {Format::kQ5K, Format::kQ6K},
      {Format::kQ4_0, Format::kQ8_0}, {Format::kQ4_0, Format::kQ4_1},
      {Format::kQ5_0, Format::kQ5_1}, {Format::kQ4_0, Format::kQ6K}};
  for (const auto& [first, second] : pairs) {
    std::vector<std::vector<uint8_t>> blocks;
    std::vector<WeightSource> parts;
    std::vector<std::vector<ModelWeight>> weights;
    for (Format format : {first, second}) {
      blocks.push_back(
          RandomBlocks(format, kOutputs * kInputs / UnitInputs(format)));
      parts.push_back(
          {.format = format,
           .data = reinterpret_cast<const std::byte*>(blocks.back().data()),
           .outputs = kOutputs});
      const auto unpacked = Unpack(format, blocks.back(), kInputs);
      weights.insert(weights.end(), unpacked.begin(), unpacked.end());
    }
    const BlockFormat common =
        CommonFormat(BlockFormatOf(first), BlockFormatOf(second));
    const PackedMatrix matrix = PackedMatrix::Pack(
        parts,
        {.inputs = kInputs, .type = WeightType::kBlocks, .format = common},
        arena_, pool_);
    EXPECT_FALSE(matrix.rounded());
    const std::vector<float> x = Random(9 * kInputs);
    const OperandRows rows(kernels(), OperandType::kBlocks, x, kInputs);
    std::vector<float> out(9 * 2 * kOutputs);
    kernels().linear(rows.In({.weights = matrix.view(),
                              .panel_end = matrix.panels(),
                              .out = out.data(),
                              .out_stride = 2 * kOutputs,
                              .out_columns = 2 * kOutputs}));
    for (int64_t output = 0; output < 2 * kOutputs; ++output) {
      float row[kInputs];
      matrix.Row(output, row);
      for (int64_t k = 0; k < kInputs; ++k) {
        const ModelWeight& w = weights[output][k];
        // Taking a minimum off again rounds.
        const float weight = w.scale * static_cast<float>(w.code) + w.minimum;
        ASSERT_NEAR(row[k], weight, 64 * std::abs(w.scale) * 0x1p-23f);
      }
      for (int64_t i = 0; i < 9; ++i) {
        const ModelRow model(
            {x.begin() + i * kInputs, x.begin() + (i + 1) * kInputs},
            /*fine=*/false);
        const float expected =
            ModelProduct(weights[output], model, common.group, common.minimums);
        ASSERT_NEAR(out[i * 2 * kOutputs + output], expected, 1e-3);
      }
    }
  }
}

// The sums that are largest by far: what saturates anywhere shows here.
TEST_P(BlockProductTest, NothingSaturates) {
  constexpr int64_t kInputs = 512;
  for (Format format : kFormats) {
    for (uint8_t byte : {0x00, 0x80, 0x7F, 0xFF}) {
      std::vector<uint8_t> blocks =
          RandomBlocks(format, 32 * kInputs / UnitInputs(format));
      const int64_t unit = RowBytes(format, UnitInputs(format));
      for (size_t i = 0; i < blocks.size(); ++i) {
        const bool scale = format == Format::kQ6K
                               ? static_cast<int64_t>(i) % unit >= 192
                               : static_cast<int64_t>(i) % unit < 4;
        if (!scale ||
            (format == Format::kQ8_0 && static_cast<int64_t>(i) % unit >= 2)) {
          blocks[i] = byte;
        }
      }
      const PackedMatrix matrix = Pack(format, blocks, kInputs);
      const auto weights = Unpack(format, blocks, kInputs);
      std::vector<float> x(7 * kInputs, 1);
      for (int64_t i = 0; i < kInputs; ++i) {
        x[kInputs + i] = -1;
        x[2 * kInputs + i] = i % 3 == 0 ? 1 : -1;
      }
      ExpectModel(matrix, weights, x);
    }
  }
}

// Inputs that fill no block, and rows of very different sizes.
TEST_P(BlockProductTest, RoundedFloatsAndPartsOfBlocks) {
  for (int64_t inputs : {1, 31, 33, 70}) {
    constexpr int64_t kOutputs = 37;
    // Whole numbers up to 127 in every block: the scale is 1.
    std::vector<float> w(inputs * kOutputs);
    std::vector<std::vector<ModelWeight>> weights(kOutputs);
    for (int64_t i = 0; i < std::ssize(w); ++i) {
      const bool first = i % inputs % 32 == 0;
      const int code = first ? 127 : static_cast<int>(random_() % 255) - 127;
      w[i] = static_cast<float>(code);
      weights[i / inputs].push_back({code, 1});
    }
    const PackedMatrix matrix =
        Pack({.format = Format::kFloat32,
              .data = reinterpret_cast<const std::byte*>(w.data()),
              .outputs = kOutputs},
             inputs, {});
    for (float scale : {1e-35f, 1e-20f, 1.0f, 1e20f}) {
      std::vector<float> x = Random(5 * inputs, scale);
      if (scale < 1e-30f) x.assign(x.size(), 0);
      ExpectModel(matrix, weights, x);
    }
  }
}

}  // namespace
}  // namespace espalier::nn
