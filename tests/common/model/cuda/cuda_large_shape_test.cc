// Two layers in the shape of Qwen3-8B with random weights: logits of the device
// against those of the CPU in bfloat16.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/model/cuda/cuda_model.h"
#include "common/model/cuda/open_device.h"
#include "common/model/native/native_model.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/testing/cuda_test_device.h"

namespace espalier::cuda_large_shape_test {
namespace {

// The emulated device computes some hundred million products a second, so there
// all widths but that of a head are an eighth.
int64_t Reduction() { return testing::CudaTestDevice() == "emulated" ? 8 : 1; }

// Writes config.json of the shape.
std::string ShapeFolder() {
  const std::string folder = ::testing::TempDir() + "/cuda_large_shape";
  std::filesystem::create_directories(folder);
  const int64_t by = Reduction();
  const nlohmann::json config = {{"architectures", {"Qwen3ForCausalLM"}},
                                 {"model_type", "qwen3"},
                                 {"hidden_size", 4096 / by},
                                 {"intermediate_size", 12288 / by},
                                 {"num_hidden_layers", 2},
                                 {"num_attention_heads", 32 / by},
                                 {"num_key_value_heads", 8 / by},
                                 {"head_dim", 128},
                                 {"vocab_size", 151936 / by},
                                 {"max_position_embeddings", 40960},
                                 {"hidden_act", "silu"},
                                 {"rms_norm_eps", 1e-6},
                                 {"rope_theta", 1e6},
                                 {"tie_word_embeddings", false}};
  std::ofstream(folder + "/config.json") << config;
  return folder;
}

struct Tree {
  std::vector<TokenId> tokens;
  std::vector<int32_t> parents;
};

std::unique_ptr<LogitRows> Verify(LanguageModel& model, const Tree& tree) {
  std::vector<TokenId> prompt;
  for (TokenId i = 0; i < 70; ++i) prompt.push_back(257 * i + 3);
  const CacheId cache = model.NewSequence();
  EXPECT_TRUE(Prefill(model, cache, prompt, 64).ok());
  auto rows = model.Forward(
      {{.cache = cache,
        .tokens = tree.tokens,
        .parents = tree.parents,
        .num_logit_rows = static_cast<int64_t>(tree.tokens.size())}});
  EXPECT_TRUE(rows.ok()) << rows.status();
  return *std::move(rows);
}

TEST(CudaLargeShapeTest, LogitsAreThoseOfTheCpu) {
  if (!testing::HasCudaTestDevice()) GTEST_SKIP() << "no device to test";
  const ModelOptions options = {.folder = ShapeFolder(),
                                .random_weights = 3,
                                .device = testing::CudaTestDevice(),
                                .compute_dtype = ComputeDType::kBFloat16,
                                .kv_pool_bytes = 8 << 20};
  auto device = OpenComputeDevice(options.device);
  ASSERT_TRUE(device.ok()) << device.status();
  const auto cuda = LoadCudaModel(options, *std::move(device));
  ASSERT_TRUE(cuda.ok()) << cuda.status();
  ModelOptions on_cpu = options;
  on_cpu.device = "cpu";
  const auto native = LoadNativeModel(on_cpu);
  ASSERT_TRUE(native.ok()) << native.status();

  Tree tree;
  for (int32_t i = 0; i < 24; ++i) {
    tree.tokens.push_back(411 * i + 5);
    tree.parents.push_back(i == 0 ? kPrefixParent : (i - 1) / 2);
  }
  const auto got = Verify(**cuda, tree), wanted = Verify(**native, tree);
  double errors = 0, squares = 0;
  for (int64_t row = 0; row < got->num_rows(); ++row) {
    const auto a = got->Row(row), b = wanted->Row(row);
    for (size_t i = 0; i < a.size(); ++i) {
      errors += std::pow(double{a[i]} - b[i], 2);
      squares += std::pow(double{b[i]}, 2);
    }
    // The best token is the CPU's, or within rounding of it.
    const auto best = std::max_element(a.begin(), a.end()) - a.begin();
    EXPECT_GT(b[best], *std::max_element(b.begin(), b.end()) - 0.1f) << row;
  }
  EXPECT_LT(std::sqrt(errors / squares), 0.02);
  RecordProperty("relative_error", std::to_string(std::sqrt(errors / squares)));
}

}  // namespace
}  // namespace espalier::cuda_large_shape_test
