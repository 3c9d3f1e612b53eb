#include "drafter/heads/head_runtime.h"

#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier::drafter {
namespace {

absl::StatusOr<ComputeDType> TypeOf(
    const std::map<std::string, std::string>& options,
    ComputeDType cpu_type = ComputeDType::kInt4) {
  OptionReader reader("eagle", options);
  const HeadRuntime runtime = ReadHeadRuntime(reader, cpu_type);
  const absl::Status read = reader.Finish();
  if (!read.ok()) return read;
  return runtime.dtype;
}

TEST(HeadRuntime, HasTheTypeOfItsDrafterUnlessTheOptionSaysOtherwise) {
  EXPECT_EQ(*TypeOf({}), ComputeDType::kInt4);
  EXPECT_EQ(*TypeOf({}, ComputeDType::kInt8), ComputeDType::kInt8);
  EXPECT_EQ(*TypeOf({{"compute_type", "float32"}}), ComputeDType::kFloat32);
  for (const char* device : {"emulated", "cuda", "cuda:1"}) {
    EXPECT_EQ(*TypeOf({{"device", device}}), ComputeDType::kFp8);
    EXPECT_EQ(*TypeOf({{"device", device}, {"compute_type", "bfloat16"}}),
              ComputeDType::kBFloat16);
  }
}

TEST(HeadRuntime, ADeviceHasTypesOfItsOwn) {
  for (const std::map<std::string, std::string>& options :
       {std::map<std::string, std::string>{{"compute_type", "fp8"}},
        {{"device", "cuda"}, {"compute_type", "int8"}}}) {
    const absl::Status status = TypeOf(options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                ::testing::HasSubstr("option compute_type"));
  }
}

}  // namespace
}  // namespace espalier::drafter
