// A verifier that comes back may continue a text if the fingerprint of its
// model is the same: a release must not change those of models that the
// release before it served.
#include "common/model/model_fingerprint.h"

#include <filesystem>
#include <set>
#include <string>

#include "common/model/load/load_model.h"
#include "gtest/gtest.h"
#include "tests/testing/source_path.h"
#include "tests/testing/tiny_model.h"

namespace espalier {
namespace {

uint64_t FingerprintOf(const std::string& folder, ComputeDType type) {
  const auto config = ReadModelConfig(folder);
  EXPECT_TRUE(config.ok()) << config.status();
  const auto files = WeightFiles::Open(folder);
  EXPECT_TRUE(files.ok()) << files.status();
  return ModelFingerprint(*config, *files, type, DefaultKvType(type));
}

class ModelFingerprintTest : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove_all(folder_); }

  const std::string folder_ = ::testing::TempDir() + "/model_fingerprint_test";
};

TEST_F(ModelFingerprintTest, OfServedModelsStaysWhatItWas) {
  testing::WriteTinyLlama(folder_);
  EXPECT_EQ(FingerprintOf(folder_, ComputeDType::kFloat32),
            2824415686438172994u);
  EXPECT_EQ(FingerprintOf(folder_, ComputeDType::kInt4), 1267043905991261021u);
  testing::WriteTinyQwen3(folder_);
  EXPECT_EQ(FingerprintOf(folder_, ComputeDType::kFloat32),
            10018848095779057546u);
  testing::WriteTinyQwen2(folder_);
  EXPECT_EQ(FingerprintOf(folder_, ComputeDType::kBFloat16),
            13269640100550392040u);
  testing::WriteTinyGpt2(folder_);
  EXPECT_EQ(FingerprintOf(folder_, ComputeDType::kInt8), 1036391934481579220u);
}

TEST_F(ModelFingerprintTest, OfServedFoldersStaysWhatItWas) {
  EXPECT_EQ(FingerprintOf(SourcePath("deploy/models/nanogpt-char"),
                          ComputeDType::kFloat32),
            14605857173227846395u);
}

TEST_F(ModelFingerprintTest, OfOtherKernelsIsAnother) {
  const std::string folder = SourcePath("deploy/models/nanogpt-char");
  const auto config = ReadModelConfig(folder);
  ASSERT_TRUE(config.ok()) << config.status();
  const auto files = WeightFiles::Open(folder);
  ASSERT_TRUE(files.ok()) << files.status();
  const auto of = [&](uint64_t kernels) {
    return ModelFingerprint(*config, *files, ComputeDType::kBFloat16,
                            DefaultKvType(ComputeDType::kBFloat16), kernels);
  };
  EXPECT_EQ(std::set({of(0), of(1), of(2)}).size(), 3);
  EXPECT_EQ(of(0), FingerprintOf(folder, ComputeDType::kBFloat16));
}

// tiny-variants is one checkpoint; see model_variants_test.
TEST_F(ModelFingerprintTest, OfConfigurationsStaysWhatItWas) {
  const auto files =
      WeightFiles::Open(SourcePath("tests/common/model/goldens/tiny-variants"));
  ASSERT_TRUE(files.ok()) << files.status();
  const auto of = [&](const char* fields) {
    const auto config = ParseModelConfig(
        std::string(R"({"num_hidden_layers": 4, "hidden_size": 16,
          "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16,
          "intermediate_size": 24, "vocab_size": 32, "rms_norm_eps": 1e-5,
          "max_position_embeddings": 64, "rope_theta": 1000.0, )") +
            fields + "}",
        "config.json");
    EXPECT_TRUE(config.ok()) << config.status();
    return ModelFingerprint(*config, *files, ComputeDType::kFloat32,
                            nn::KvType::kFloat32);
  };
  EXPECT_EQ(of(R"("architectures": ["SmolLM3ForCausalLM"])"),
            5247698083950914347u);
  EXPECT_EQ(of(R"("architectures": ["MistralForCausalLM"],
                  "sliding_window": null, "rope_scaling":
                  {"rope_type": "yarn", "factor": 4.0,
                   "original_max_position_embeddings": 16})"),
            12830302384557568879u);
  EXPECT_EQ(of(R"("architectures": ["LlamaForCausalLM"],
                  "tie_word_embeddings": true, "mlp_bias": true,
                  "attention_bias": true, "hidden_act": "gelu",
                  "rope_scaling": {"type": "linear", "factor": 4.0})"),
            2692525939179383334u);
}

}  // namespace
}  // namespace espalier
