#include "common/speculation/sampling_params.h"

#include <cmath>
#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier {
namespace {

using ::testing::HasSubstr;

constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(ValidateSamplingParams, AcceptsTheLimitsThemselves) {
  EXPECT_TRUE(ValidateSamplingParams({}).ok());
  EXPECT_TRUE(ValidateSamplingParams({.temperature = 0.01f}).ok());
  EXPECT_TRUE(ValidateSamplingParams({.temperature = 100}).ok());
  EXPECT_TRUE(ValidateSamplingParams({.top_k = 1}).ok());
  EXPECT_TRUE(ValidateSamplingParams({.top_p = 1e-30f}).ok());
}

void ExpectRefused(const SamplingParams& sampling, const char* field) {
  const absl::Status status = ValidateSamplingParams(sampling);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(field));
}

TEST(ValidateSamplingParams, NamesTheFieldThatIsOutOfRange) {
  for (float bad : {-1.0f, 0.009f, 100.1f, kInf, std::nanf("")}) {
    ExpectRefused({.temperature = bad}, "temperature");
  }
  for (float bad : {0.0f, -0.5f, 1.001f, kInf, std::nanf("")}) {
    ExpectRefused({.top_p = bad}, "top_p");
  }
  ExpectRefused({.top_k = -1}, "top_k");
}

}  // namespace
}  // namespace espalier
