#include "common/model/native/weight_memory.h"

#include "common/model/files/weight_files.h"
#include "common/model/load/load_model.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/tiny_model.h"

namespace espalier {
namespace {

std::map<std::string, TensorView> Tensors() {
  return {{"a", {.dtype = DType::kBF16, .shape = {64, 1 << 20}}},
          {"b", {.dtype = DType::kQ4_K, .shape = {64, 1 << 20}}},
          {"norm", {.dtype = DType::kF32, .shape = {64}}}};
}

TEST(LeastWeightBytes, FollowFromTheTypeAndTheFilesBlocks) {
  constexpr int64_t kMiB = 1 << 20;
  EXPECT_EQ(LeastWeightBytes(Tensors(), ComputeDType::kFloat32), 384 * kMiB);
  EXPECT_EQ(LeastWeightBytes(Tensors(), ComputeDType::kBFloat16), 256 * kMiB);
  EXPECT_EQ(LeastWeightBytes(Tensors(), ComputeDType::kInt8), 96 * kMiB);
  EXPECT_EQ(LeastWeightBytes(Tensors(), ComputeDType::kInt4), 64 * kMiB);
}

TEST(CheckWeightsFit, SaysHowMuchIsNeededAndThere) {
  EXPECT_TRUE(CheckWeightsFit(Tensors(), ComputeDType::kInt4, 64 << 20).ok());
  const absl::Status status =
      CheckWeightsFit(Tensors(), ComputeDType::kBFloat16, 255 << 20);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              ::testing::HasSubstr("at least 256 MiB in bfloat16, of memory "
                                   "there are 255 MiB left"));
}

// What the check lets pass is what is packed, or less.
TEST(LeastWeightBytes, AreNoMoreThanAModelTakes) {
  const std::string folder = ::testing::TempDir() + "/weight_memory_test";
  testing::WriteTinyQwen3Moe(folder);
  const auto files = WeightFiles::Open(folder);
  ASSERT_TRUE(files.ok()) << files.status();
  for (ComputeDType dtype : kNativeComputeDTypes) {
    const auto model = LoadModel({.folder = folder,
                                  .compute_dtype = dtype,
                                  .threads = 1,
                                  .backend = "native"});
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_LE(LeastWeightBytes(files->tensors(), dtype),
              (*model)->info().weight_bytes);
  }
}

}  // namespace
}  // namespace espalier
