#ifndef ESPALIER_TESTS_COMMON_MODEL_CUDA_CUDA_MODEL_FIXTURE_H_
#define ESPALIER_TESTS_COMMON_MODEL_CUDA_CUDA_MODEL_FIXTURE_H_

#include <cstdint>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "common/base/e4m3.h"
#include "common/cuda/cuda_device.h"
#include "common/cuda/emulated_device.h"
#include "common/model/cuda/cuda_model.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/testing/e4m3_value.h"
#include "tests/testing/tiny_model.h"

namespace espalier {

using Row = std::vector<float>;

inline constexpr int64_t kVocab = testing::kTinyVocab;

struct Tree {
  std::vector<TokenId> tokens;
  std::vector<int32_t> parents;

  std::vector<int32_t> PathTo(int32_t row) const {
    std::vector<int32_t> path;
    for (; row >= 0; row = parents[row]) path.insert(path.begin(), row);
    return path;
  }
};

inline SequenceRows AllRows(CacheId cache, const Tree& tree,
                            LogitUse use = AnyUse{}) {
  return {.cache = cache,
          .tokens = tree.tokens,
          .parents = tree.parents,
          .num_logit_rows = static_cast<int64_t>(tree.tokens.size()),
          .use = std::move(use)};
}

inline Row RowOf(const LogitRows& rows, int64_t row) {
  const absl::Span<const float> values = rows.Row(row);
  return {values.begin(), values.end()};
}

// The parameter: the kind of model, its compute type, and the device.
class CudaModelTest : public ::testing::TestWithParam<
                          std::tuple<std::string, ComputeDType, std::string>> {
 protected:
  void SetUp() override {
    const auto& [kind, type, device] = GetParam();
    if (device == "cuda") {
      auto opened = cuda::OpenCudaDevice(0, {.runs_chains = false});
      if (!opened.ok()) {
        GTEST_SKIP() << "no CUDA device to test: " << opened.status().message();
      }
      cuda_ = *std::move(opened);
    }
    options_.folder = ::testing::TempDir() + "/cuda_model";
    options_.kv_pool_bytes = 8 << 20;
    tensors_ = Writer(kind)(options_.folder, /*seed=*/1);
  }

  static decltype(&testing::WriteWideLlama) Writer(const std::string& kind) {
    if (kind == "qwen3") return testing::WriteWideQwen3;
    if (kind == "mistral") return testing::WriteWideMistral;
    if (kind == "gemma3") return testing::WriteWideGemma3;
    if (kind == "qwen3moe") return testing::WriteWideQwen3Moe;
    return testing::WriteWideLlama;
  }

  // Changes the weights of the layers' products to such that e4m3 holds exactly
  // with one power of two for all.
  void RoundWeights() {
    for (auto& [name, tensor] : tensors_) {
      if (!absl::StrContains(name, "_proj.weight")) continue;
      const int64_t inputs = tensor.shape[1];
      for (size_t row = 0; row < tensor.values.size(); row += inputs) {
        const auto values = absl::MakeSpan(tensor.values).subspan(row, inputs);
        constexpr float kScale = 0x1p-11f;
        for (float& x : values) {
          x = static_cast<float>(E4m3Value(FloatToE4m3(x / kScale)) * kScale);
        }
        values[0] = kLargestE4m3 * kScale;
      }
    }
    testing::WriteSafetensors(options_.folder + "/model.safetensors", tensors_);
  }

  void LengthenContext(int64_t positions) {
    const std::string file = options_.folder + "/config.json";
    nlohmann::json config = nlohmann::json::parse(std::ifstream(file));
    config["max_position_embeddings"] = positions;
    std::ofstream(file) << config;
  }

  std::shared_ptr<cuda::ComputeDevice> Device(uint64_t seed = 1) {
    if (cuda_ != nullptr) return cuda_;
    return std::make_shared<cuda::EmulatedDevice>(
        cuda::EmulatedDevice::Options{.seed = seed, .resident_blocks = 0});
  }
  // Returns one that runs chains where it can, with attention or without it.
  std::shared_ptr<cuda::ComputeDevice> ChainingDevice(uint64_t seed,
                                                      bool chains_attend) {
    if (cuda_ == nullptr) {
      return std::make_shared<cuda::EmulatedDevice>(
          cuda::EmulatedDevice::Options{.seed = seed,
                                        .resident_blocks = 132,
                                        .chains_attend = chains_attend});
    }
    auto opened = cuda::OpenCudaDevice(
        0, {.runs_chains = true, .chains_attend = chains_attend});
    EXPECT_TRUE(opened.ok()) << opened.status();
    return *std::move(opened);
  }
  std::unique_ptr<LanguageModel> Load(uint64_t seed = 1) {
    return LoadOn(Device(seed));
  }
  std::unique_ptr<LanguageModel> LoadOn(
      std::shared_ptr<cuda::ComputeDevice> device,
      ComputeDType of_type = type()) {
    ModelOptions options = options_;
    options.compute_dtype = of_type;
    auto model = LoadCudaModel(options, std::move(device));
    EXPECT_TRUE(model.ok()) << model.status();
    return *std::move(model);
  }

  static ComputeDType type() { return std::get<1>(GetParam()); }

  static std::vector<TokenId> RandomTokens(int64_t count, uint64_t seed = 3) {
    std::mt19937_64 random(seed);
    std::vector<TokenId> tokens;
    for (int64_t i = 0; i < count; ++i)
      tokens.push_back(static_cast<TokenId>(random() % kVocab));
    return tokens;
  }
  // Returns a sequence with a prompt of so many tokens.
  static CacheId Prompted(LanguageModel& model, int64_t count,
                          uint64_t seed = 3) {
    const CacheId cache = model.NewSequence();
    const auto rows = Prefill(model, cache, RandomTokens(count, seed), 70);
    EXPECT_TRUE(rows.ok()) << rows.status();
    return cache;
  }
  // Decodes one token, commits it, and returns its logits.
  static Row Decode(LanguageModel& model, CacheId cache, TokenId token) {
    const auto rows = model.Forward({AllRows(cache, {{token}, {-1}})});
    EXPECT_TRUE(rows.ok()) << rows.status();
    EXPECT_TRUE(model.Keep(cache, {0}, {}).ok());
    return RowOf(**rows, 0);
  }

  testing::TinyTensors tensors_;
  ModelOptions options_;
  std::shared_ptr<cuda::ComputeDevice> cuda_;
  const Tree tree_ = {{5, 190, 17, 17, 2, 90, 41, 8, 8},
                      {-1, 0, 1, 1, 0, 4, 5, 2, 3}};
};

}  // namespace espalier

#endif  // ESPALIER_TESTS_COMMON_MODEL_CUDA_CUDA_MODEL_FIXTURE_H_
