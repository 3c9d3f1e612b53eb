// Passes that compute the output head for some tokens only.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "common/model/native/native_model.h"
#include "common/nn/cpu_backend.h"
#include "gtest/gtest.h"

namespace espalier::wanted_logits_test {
namespace {

constexpr int64_t kVocab = 3000;  // twelve chunks, the last one short
constexpr const char* kShape = R"({
  "architectures": ["LlamaForCausalLM"], "hidden_size": 64,
  "intermediate_size": 96, "max_position_embeddings": 256,
  "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 2,
  "rms_norm_eps": 1e-5, "rope_theta": 10000, "tie_word_embeddings": true,
  "vocab_size": 3000})";

std::vector<uint32_t> BitsOf(const std::vector<TokenId>& tokens) {
  std::vector<uint32_t> bits((kVocab + 31) / 32);
  for (TokenId token : tokens) bits[token / 32] |= uint32_t{1} << (token % 32);
  return bits;
}

class WantedLogits : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "/wanted_logits_test";
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ + "/config.json") << kShape;
  }

  // Calls `test` with a model of each backend and compute type.
  template <typename Test>
  void ForEachModel(Test test) {
    for (const nn::Kernels* kernels : nn::UsableBackends()) {
      for (ComputeDType dtype : kNativeComputeDTypes) {
        SCOPED_TRACE(std::string(kernels->name) + " " + NameOf(dtype));
        auto model = LoadNativeModel({.folder = folder_,
                                      .random_weights = 7,
                                      .compute_dtype = dtype,
                                      .threads = 2,
                                      .cpu_kernels = kernels->name});
        ASSERT_TRUE(model.ok()) << model.status();
        cache_ = (*model)->NewSequence();
        test(**model);
      }
    }
  }

  SequenceRows Rows(absl::Span<const uint32_t> wanted) const {
    return {.cache = cache_,
            .tokens = tokens_,
            .parents = parents_,
            .num_logit_rows = 3,
            .wanted = wanted};
  }

  std::string folder_;
  CacheId cache_ = 0;
  const std::vector<TokenId> tokens_ = {3, 2999, 7};
  const std::vector<int32_t> parents_ = {-1, 0, 0};
};

TEST_F(WantedLogits, HaveTheBitsOfTheWholeProduct) {
  const std::vector<TokenId> some = {0, 255, 300, 1700, 2999};
  const std::vector<uint32_t> bits = BitsOf(some);
  ForEachModel([&](LanguageModel& model) {
    const auto whole = model.Forward({Rows({})});
    const auto part = model.Forward({Rows(bits)});
    ASSERT_TRUE(whole.ok() && part.ok());
    for (int64_t row = 0; row < 3; ++row) {
      for (TokenId token : some) {
        EXPECT_EQ((*part)->Row(row)[token], (*whole)->Row(row)[token]);
      }
      // A chunk without wanted tokens is not computed.
      EXPECT_EQ((*part)->Row(row)[2100], 0);
      EXPECT_NE((*whole)->Row(row)[2100], 0);
    }
  });
}

// What one sequence does without, another may read.
TEST_F(WantedLogits, AreAllThatSomeSequenceWants) {
  const std::vector<uint32_t> first = BitsOf({5}), second = BitsOf({2100});
  ForEachModel([&](LanguageModel& model) {
    const auto whole = model.Forward({Rows({})});
    SequenceRows other = Rows(second);
    other.cache = model.NewSequence();
    const auto both = model.Forward({Rows(first), other});
    ASSERT_TRUE(whole.ok() && both.ok());
    EXPECT_EQ((*both)->Row(0)[5], (*whole)->Row(0)[5]);
    EXPECT_EQ((*both)->Row(3)[2100], (*whole)->Row(0)[2100]);
    other.use = DrawRequest{.temperature = 1, .seed = 3};
    const auto drawn = model.Forward({Rows(first), other});
    ASSERT_TRUE(drawn.ok());
    EXPECT_EQ((*drawn)->Row(0)[2100], (*whole)->Row(0)[2100]);
    const DrawRequest draw = {.temperature = 1, .seed = 3};
    EXPECT_EQ((*drawn)->Draw(3, draw, 1)->token,
              DrawFrom((*whole)->Row(0), draw, 1)->token);
  });
}

TEST_F(WantedLogits, OfAnotherVocabularyAreRefused) {
  const std::vector<uint32_t> bits(3);
  ForEachModel([&](LanguageModel& model) {
    EXPECT_TRUE(absl::IsInvalidArgument(model.Forward({Rows(bits)}).status()));
  });
}

}  // namespace
}  // namespace espalier::wanted_logits_test
