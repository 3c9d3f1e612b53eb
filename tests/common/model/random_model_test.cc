// Models of random weights: a configuration is enough to load one.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "common/model/files/tensor_values.h"
#include "common/model/files/weight_files.h"
#include "common/model/load/load_model.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/source_path.h"
#include "tests/testing/tiny_model.h"

namespace espalier {
namespace {

using ::testing::HasSubstr;
using Row = std::vector<float>;

class RandomModelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "/random_model_test_" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
  }

  using Write = testing::TinyTensors(const std::string&, uint64_t);
  void WriteShape(Write write) {
    tensors_ = write(folder_, /*seed=*/1);
    std::filesystem::remove(folder_ + "/model.safetensors");
  }

  WeightFiles Weights(uint64_t seed) const {
    auto weights = WeightFiles::Open(folder_, seed);
    EXPECT_TRUE(weights.ok()) << weights.status();
    return *std::move(weights);
  }

  // Returns all rows of a tensor.
  Row Values(const WeightFiles& weights, const std::string& name) const {
    const auto view = weights.Find(name);
    EXPECT_TRUE(view.ok()) << view.status();
    const auto tensor = TensorValues::Of(name, *view);
    EXPECT_TRUE(tensor.ok()) << tensor.status();
    Row values(tensor->rows() * tensor->columns());
    for (int64_t row = tensor->rows() - 1; row >= 0; --row) {
      tensor->Row(row, &values[row * tensor->columns()]);
    }
    return values;
  }

  // Returns the logits after a text that repeats the tokens 3, 5, 7.
  Row Logits(const ModelOptions& options) const {
    auto model = LoadModel(options);
    EXPECT_TRUE(model.ok()) << model.status();
    const std::vector<TokenId> tokens = {3, 5, 7};
    const std::vector<int32_t> parents = {-1, 0, 1};
    const auto rows = (*model)->Forward({{.cache = (*model)->NewSequence(),
                                          .tokens = tokens,
                                          .parents = parents,
                                          .num_logit_rows = 3}});
    EXPECT_TRUE(rows.ok()) << rows.status();
    Row logits;
    for (int64_t row = 0; row < 3; ++row) {
      const auto values = (*rows)->Row(row);
      logits.insert(logits.end(), values.begin(), values.end());
    }
    return logits;
  }

  std::string folder_;
  testing::TinyTensors tensors_;  // the ones that a real folder has
};

TEST_F(RandomModelTest, HasTheTensorsOfAModelOfThisShape) {
  for (Write* write : {testing::WriteTinyLlama, testing::WriteTinyQwen2,
                       testing::WriteTinyQwen3, testing::WriteTinyQwen3Moe}) {
    WriteShape(*write);
    const WeightFiles weights = Weights(1);
    EXPECT_EQ(weights.tensors().size(), tensors_.size());
    for (const auto& [name, tensor] : tensors_) {
      EXPECT_TRUE(weights.Find(name, tensor.shape).ok()) << name;
    }
  }
}

TEST_F(RandomModelTest, ASeedAndANameGiveTheValues) {
  WriteShape(testing::WriteTinyLlama);
  const WeightFiles one = Weights(1), again = Weights(1), two = Weights(2);
  const std::string up = "model.layers.1.mlp.up_proj.weight";
  const std::string gate = "model.layers.1.mlp.gate_proj.weight";
  const Row values = Values(one, up);
  EXPECT_EQ(Values(again, up), values);
  EXPECT_NE(Values(two, up), values);
  EXPECT_NE(Values(one, gate), values);
  EXPECT_EQ(Values(one, "model.norm.weight"), Row(48, 1.0f));
}

TEST_F(RandomModelTest, ValuesHaveTheSpreadOfTrainedWeights) {
  WriteShape(testing::WriteTinyLlama);
  const Row values = Values(Weights(1), "lm_head.weight");  // [258, 48]
  const double count = static_cast<double>(values.size());
  const double mean =
      std::accumulate(values.begin(), values.end(), 0.0) / count;
  const double squares =
      std::inner_product(values.begin(), values.end(), values.begin(), 0.0);
  const double unit = 1 / std::sqrt(48.0);
  EXPECT_NEAR(mean, 0, 4 * unit / std::sqrt(count));
  EXPECT_GT(std::sqrt(squares / count), unit / 1.5);
  EXPECT_LT(std::sqrt(squares / count), unit * 1.5);
}

TEST_F(RandomModelTest, LogitsAreFiniteAndDependOnTheSeedAlone) {
  for (Write* write : {testing::WriteTinyLlama, testing::WriteTinyQwen2,
                       testing::WriteTinyQwen3, testing::WriteTinyQwen3Moe}) {
    WriteShape(*write);
    for (ComputeDType dtype : kNativeComputeDTypes) {
      SCOPED_TRACE(NameOf(dtype));
      const auto logits = [&](uint64_t seed, int64_t threads) {
        return Logits({.folder = folder_,
                       .random_weights = seed,
                       .compute_dtype = dtype,
                       .threads = threads,
                       .backend = "native"});
      };
      const Row one = logits(1, 1);
      for (float logit : one) ASSERT_TRUE(std::isfinite(logit));
      EXPECT_GT(*std::max_element(one.begin(), one.end()), 0.5f);
      EXPECT_EQ(logits(1, 2), one);
      EXPECT_NE(logits(2, 1), one);
    }
  }
}

TEST_F(RandomModelTest, BackendsAgree) {
  WriteShape(testing::WriteTinyQwen3);
  ModelOptions options = {.folder = folder_,
                          .random_weights = 5,
                          .threads = 1,
                          .backend = "native"};
  const Row native = Logits(options);
  for (const std::string& backend : ModelBackends()) {
    options.backend = backend;
    const Row other = Logits(options);
    for (size_t i = 0; i < native.size(); ++i) {
      ASSERT_NEAR(other[i], native[i], 1e-4) << backend;
    }
  }
}

TEST_F(RandomModelTest, FingerprintIsOfTheSeed) {
  WriteShape(testing::WriteTinyLlama);
  const auto fingerprint = [&](uint64_t seed) {
    const auto model =
        LoadModel({.folder = folder_, .random_weights = seed, .threads = 1});
    EXPECT_TRUE(model.ok()) << model.status();
    return (*model)->info().fingerprint;
  };
  EXPECT_EQ(fingerprint(1), fingerprint(1));
  EXPECT_NE(fingerprint(1), fingerprint(2));
}

TEST_F(RandomModelTest, BadShapesAreNamed) {
  const auto expect_error = [&](absl::StatusCode code,
                                const std::string& text) {
    const auto model = LoadModel({.folder = folder_, .random_weights = 1});
    EXPECT_EQ(model.status().code(), code) << model.status();
    EXPECT_THAT(std::string(model.status().message()), HasSubstr(text));
  };
  expect_error(absl::StatusCode::kNotFound, "no such file or folder");
  WriteShape(testing::WriteTinyGpt2);
  expect_error(absl::StatusCode::kUnimplemented, "Llama or Qwen");
  WriteShape(testing::WriteTinyLlama);
  std::ifstream in(folder_ + "/config.json");
  std::string config{std::istreambuf_iterator<char>(in), {}};
  std::ofstream(folder_ + "/config.json") << absl::StrReplaceAll(
      config, {{"\"hidden_size\":48", "\"hidden_size\":-48"},
               {"\"hidden_size\": 48", "\"hidden_size\": -48"}});
  expect_error(absl::StatusCode::kInvalidArgument, "hidden_size");
}

TEST(ShapesTest, OfTheRepositoryHaveTheWeightsOfTheirModels) {
  const std::pair<std::string, int64_t> counts[] = {
      {"qwen3-8b", 8'190'735'360},
      {"llama-3.1-8b", 8'030'261'248},
      {"llama-3.2-1b", 1'235'814'400}};
  for (const auto& [name, wanted] : counts) {
    const auto weights =
        WeightFiles::Open(SourcePath("deploy/shapes/") + name, 1);
    ASSERT_TRUE(weights.ok()) << weights.status();
    int64_t count = 0;
    for (const auto& [tensor, view] : weights->tensors()) {
      int64_t size = 1;
      for (int64_t n : view.shape) size *= n;
      count += size;
    }
    EXPECT_EQ(count, wanted) << name;
  }
}

}  // namespace
}  // namespace espalier
