#include "common/model/native/auto_compute_type.h"

#include <map>
#include <string>

#include "gtest/gtest.h"

namespace espalier {
namespace {

std::map<std::string, TensorView> Model(DType layers, DType vocabulary) {
  return {
      {"model.embed_tokens.weight", {.dtype = vocabulary, .shape = {96, 64}}},
      {"model.layers.0.mlp.up_proj.weight",
       {.dtype = layers, .shape = {64, 64}}},
      {"model.norm.weight", {.dtype = DType::kF32, .shape = {64}}}};
}

TEST(AutoComputeTypeTest, BlocksOfTheFileAreTaken) {
  EXPECT_EQ(AutoComputeType(Model(DType::kQ4_1, DType::kQ8_0)),
            ComputeDType::kInt4);
  EXPECT_EQ(AutoComputeType(Model(DType::kQ4_0, DType::kQ4_0)),
            ComputeDType::kInt4);
  EXPECT_EQ(AutoComputeType(Model(DType::kQ8_0, DType::kQ8_0)),
            ComputeDType::kInt8);
  EXPECT_EQ(AutoComputeType(Model(DType::kQ4_K, DType::kQ6_K)),
            ComputeDType::kInt8);
}

// The layers' formats decide together.
TEST(AutoComputeTypeTest, NoMatrixIsRoundedThatWasNotMeasured) {
  auto tensors = Model(DType::kQ4_1, DType::kQ8_0);
  tensors["model.layers.1.mlp.up_proj.weight"] = {.dtype = DType::kQ8_0,
                                                  .shape = {64, 64}};
  EXPECT_EQ(AutoComputeType(tensors), ComputeDType::kInt8);
  tensors["model.layers.2.mlp.up_proj.weight"] = {.dtype = DType::kF64,
                                                  .shape = {64, 64}};
  EXPECT_EQ(AutoComputeType(tensors), ComputeDType::kBFloat16);
}

// Every type that is chosen for a format is in the table, within the limits.
TEST(AutoComputeTypeTest, ChoosesWithinTheLimits) {
  for (int i = 0; i <= static_cast<int>(DType::kQ6_K); ++i) {
    const auto format = static_cast<DType>(i);
    const ComputeDType type = AutoComputeType(Model(format, format));
    if (type == ComputeDType::kBFloat16) continue;
    bool measured = false;
    for (const MeasuredQuality& quality : MeasuredQualities()) {
      if (quality.format != format || quality.type != type) continue;
      measured = true;
      EXPECT_LE(quality.kl, kMaxAutoKl) << DTypeName(format);
      EXPECT_GE(quality.top1, kMinAutoTop1) << DTypeName(format);
    }
    EXPECT_TRUE(measured) << DTypeName(format);
  }
}

}  // namespace
}  // namespace espalier
