#include "common/model/files/tensor_values.h"

#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier {
namespace {

using ::testing::HasSubstr;

struct Golden {
  DType dtype;
  int64_t unit_bytes;
  std::vector<int64_t> scales;  // where a unit has its float16 numbers
  int64_t values;
  double sum;  // of every value times its number, from 1
  double sixth;
};

// Four units, or 64 floats, of numbers of a known sequence; scales are made
// small and finite.
std::vector<std::byte> BytesOf(const Golden& golden) {
  const int64_t units = golden.unit_bytes == 2 ? 64 : 4;
  std::vector<std::byte> bytes;
  uint32_t state = 12345;
  for (int64_t i = 0; i < units * golden.unit_bytes; ++i) {
    state = (state * 1103515245u + 12345u) & 0x7FFFFFFF;
    bytes.push_back(std::byte{static_cast<uint8_t>(state >> 16)});
  }
  for (int64_t unit = 0; unit < units; ++unit) {
    for (int64_t at : golden.scales) {
      std::byte& high = bytes[unit * golden.unit_bytes + at + 1];
      high = (high & std::byte{0x83}) | std::byte{0x20};
    }
  }
  return bytes;
}

// What numpy makes of the same bytes with the package gguf 0.19.
TEST(TensorValuesTest, AreThoseOfTheReferenceImplementation) {
  const std::vector<Golden> goldens = {
      {DType::kF16, 2, {0}, 64, -0.27455902099609375, 0.014984130859375},
      {DType::kBF16,
       2,
       {0},
       64,
       -1.6551811529989975e-15,
       1.8648277366750676e-17},
      {DType::kQ8_0, 34, {0}, 128, 257.1631546020508, 0.85418701171875},
      {DType::kQ4_0, 18, {0}, 128, -58.3526611328125, 0.01898193359375},
      {DType::kQ4_1, 20, {0, 2}, 128, 11.602821350097656, 0.03496551513671875},
      {DType::kQ5_0, 22, {0}, 128, 2.1700820922851562, 0.104400634765625},
      {DType::kQ5_1, 24, {0, 2}, 128, 557.2602157592773, 0.12987518310546875},
      {DType::kQ4_K, 144, {0, 2}, 1024, 676519.1830444336, 2.9727020263671875},
      {DType::kQ5_K, 176, {0, 2}, 1024, 879662.1753540039, 5.3264617919921875},
      {DType::kQ6_K, 210, {208}, 1024, -249733.0386581421, 28.132965087890625},
  };
  for (const Golden& golden : goldens) {
    SCOPED_TRACE(DTypeName(golden.dtype));
    const std::vector<std::byte> bytes = BytesOf(golden);
    const TensorView view = {
        .dtype = golden.dtype, .shape = {2, golden.values / 2}, .data = bytes};
    const auto values = TensorValues::Of("x", view);
    ASSERT_TRUE(values.ok()) << values.status();
    std::vector<float> all(golden.values);
    values->Row(0, all.data());
    values->Row(1, all.data() + golden.values / 2);
    double sum = 0;
    for (int64_t i = 0; i < golden.values; ++i) {
      sum += static_cast<double>(i + 1) * static_cast<double>(all[i]);
    }
    EXPECT_DOUBLE_EQ(sum, golden.sum);
    EXPECT_EQ(all[5], static_cast<float>(golden.sixth));
  }
}

TEST(TensorValuesTest, IntegersAreNoWeights) {
  const auto values =
      TensorValues::Of("ids", {.dtype = DType::kI64, .shape = {0}});
  EXPECT_EQ(values.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(values.status().message(), HasSubstr("tensor ids has dtype I64"));
}

// No bytes of a file bound the other dimension of an empty tensor.
TEST(TensorValuesTest, EmptyTensorsAreNoWeights) {
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{0, int64_t{1} << 60}, {int64_t{1} << 60, 0}}) {
    const auto values =
        TensorValues::Of("w", {.dtype = DType::kF32, .shape = shape});
    EXPECT_EQ(values.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(values.status().message(), HasSubstr("a dimension of 0"));
  }
}

}  // namespace
}  // namespace espalier
