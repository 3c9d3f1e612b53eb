// The default model on the emulated device: greedy text is the native engine's
// in bfloat16, but for near ties.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "common/cuda/emulated_device.h"
#include "common/model/cuda/cuda_model.h"
#include "common/model/native/native_model.h"
#include "gtest/gtest.h"

namespace espalier {
namespace {

std::string DefaultModel() {
  const char* const set = std::getenv("ESPALIER_TEST_MODEL");
  const char* const home = std::getenv("HOME");
  if (set != nullptr) return set;
  return std::string(home != nullptr ? home : "") +
         "/.cache/espalier/models/smollm2-135m-instruct-bf16";
}

// Some tokens that begin a text.
const std::vector<std::vector<TokenId>> kPrompts = {{504, 6064, 282, 4649, 314},
                                                    {28, 253, 1789, 355, 30},
                                                    {1, 4093, 198, 1780}};

TEST(CudaDefaultModelTest, GreedyTextIsTheNativeEngines) {
  ModelOptions options = {.folder = DefaultModel(),
                          .compute_dtype = ComputeDType::kBFloat16,
                          .kv_pool_bytes = 64 << 20,
                          .max_context = 512};
  if (!std::filesystem::exists(options.folder)) {
    GTEST_SKIP() << "no " << options.folder
                 << ": deploy/setup.sh --tests makes it";
  }
  const auto native = LoadNativeModel(options);
  ASSERT_TRUE(native.ok()) << native.status();
  const auto model =
      LoadCudaModel(options, std::make_shared<cuda::EmulatedDevice>(
                                 cuda::EmulatedDevice::Options{.seed = 1}));
  ASSERT_TRUE(model.ok()) << model.status();
  constexpr int kTokens = 6;
  for (const std::vector<TokenId>& prompt : kPrompts) {
    const CacheId a = (*native)->NewSequence(), b = (*model)->NewSequence();
    auto rows = Prefill(**native, a, prompt, 64);
    auto cuda_rows = Prefill(**model, b, prompt, 64);
    for (int i = 0; i < kTokens; ++i) {
      ASSERT_TRUE(rows.ok() && cuda_rows.ok());
      const absl::Span<const float> x = (*rows)->Row(0);
      const absl::Span<const float> y = (*cuda_rows)->Row(0);
      const SampledToken wanted = LargestLogit(x), got = LargestLogit(y);
      // Rows in bfloat16 differ by about 1e-2.
      EXPECT_NEAR(x[got.token], x[wanted.token], 0.1) << "token " << i;
      if (got.token != wanted.token) break;  // the texts part
      rows = Prefill(**native, a, {&wanted.token, 1}, 1);
      cuda_rows = Prefill(**model, b, {&wanted.token, 1}, 1);
    }
  }
}

}  // namespace
}  // namespace espalier
