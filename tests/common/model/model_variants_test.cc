// One small float16 checkpoint in two shards, read as several architectures and
// with several rotary scalings: the logits must be those of an implementation
// in Python (make_variant_goldens.py).
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/model/load/load_model.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/testing/source_path.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const std::string kGoldens =
    SourcePath("tests/common/model/goldens/tiny-variants");

json Variants() {
  std::ifstream file(kGoldens + "/variants.json");
  return json::parse(file);
}

class ModelVariantsTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    std::string name =
        ::testing::UnitTest::GetInstance()->current_test_info()->name();
    for (char& c : name) c = c == '/' ? '_' : c;
    folder_ = fs::path(::testing::TempDir()) / ("model_variants_test_" + name);
    fs::create_directories(folder_);
    for (const char* file :
         {"model-00001-of-00002.safetensors",
          "model-00002-of-00002.safetensors", "model.safetensors.index.json"}) {
      fs::copy_file(fs::path(kGoldens) / file, folder_ / file,
                    fs::copy_options::overwrite_existing);
    }
  }
  void TearDown() override { fs::remove_all(folder_); }

  absl::StatusOr<std::unique_ptr<LanguageModel>> Load(const json& config) {
    std::ofstream(folder_ / "config.json") << config;
    return LoadModel(
        {.folder = folder_.string(), .threads = 1, .backend = GetParam()});
  }

  fs::path folder_;
};

INSTANTIATE_TEST_SUITE_P(Backends, ModelVariantsTest,
                         ::testing::ValuesIn(ModelBackends()),
                         [](const auto& test) { return test.param; });

TEST_P(ModelVariantsTest, HaveTheLogitsOfThePythonImplementation) {
  const json variants = Variants();
  ASSERT_GE(variants.size(), 13u);
  for (const json& variant : variants) {
    SCOPED_TRACE(variant["name"].get<std::string>());
    const auto model = Load(variant["config"]);
    ASSERT_TRUE(model.ok()) << model.status();
    const std::vector<TokenId> prompt = variant["prompt"];
    const auto logits = Prefill(**model, (*model)->NewSequence(), prompt,
                                (*model)->info().max_rows);
    ASSERT_TRUE(logits.ok()) << logits.status();
    const auto row = (*logits)->Row(0);
    ASSERT_EQ(row.size(), variant["logits"].size());
    for (size_t i = 0; i < row.size(); ++i) {
      EXPECT_NEAR(row[i], variant["logits"][i].get<double>(), 2e-4) << i;
    }
  }
}

TEST_P(ModelVariantsTest, YarnReachesAsFarAsItsFactor) {
  json config = Variants()[0]["config"];
  config["max_position_embeddings"] = 16;
  config["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", 4}};
  const auto model = Load(config);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->info().max_context, 64);
}

TEST_P(ModelVariantsTest, AMissingShardIsNamed) {
  fs::remove(folder_ / "model-00002-of-00002.safetensors");
  const auto model = Load(Variants()[0]["config"]);
  EXPECT_EQ(model.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(model.status().message()),
              ::testing::HasSubstr("model-00002-of-00002.safetensors"));
}

}  // namespace
}  // namespace espalier
