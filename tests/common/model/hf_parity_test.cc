// Greedy text must be that of Hugging Face transformers in float32 (goldens/,
// written by make_hf_goldens.py), except after a near-tie.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "common/model/load/load_model.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/common/model/same_rows.h"
#include "tests/testing/source_path.h"

namespace espalier {
namespace {

// Logits are near 20: float32 sums in another order differ by some 1e-5.
constexpr double kNearTie = 1e-3;
constexpr double kSameLogit = kNearTie / 2;

struct Golden {
  std::vector<TokenId> prompt;
  std::vector<TokenId> tokens;
  std::vector<double> margins;  // of the best token over the second
  std::vector<double> logits;   // after the prompt; may be empty
};

std::vector<Golden> ReadGoldens(const std::string& name) {
  const std::string path = SourcePath("tests/common/model/goldens/") + name;
  std::ifstream file(path);
  std::vector<Golden> goldens;
  for (const auto& text : nlohmann::json::parse(file)) {
    goldens.push_back({.prompt = text["prompt"],
                       .tokens = text["tokens"],
                       .margins = text["margins"],
                       .logits = text.value("logits", std::vector<double>())});
  }
  return goldens;
}

TokenId Best(absl::Span<const float> logits) {
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) -
                              logits.begin());
}

// Compares up to `max_tokens` tokens; returns how many were equal before the
// text ended or parted at a near-tie.
size_t ExpectGreedyText(LanguageModel& model, const Golden& golden,
                        size_t max_tokens) {
  const CacheId cache = model.NewSequence();
  std::vector<TokenId> next = golden.prompt;
  const size_t size = std::min(max_tokens, golden.tokens.size());
  size_t equal = 0;
  for (; equal < size; ++equal) {
    auto logits = Prefill(model, cache, next, model.info().max_rows);
    EXPECT_TRUE(logits.ok()) << logits.status();
    next = {Best((*logits)->Row(0))};
    if (next[0] != golden.tokens[equal]) {
      EXPECT_LT(golden.margins[equal], kNearTie)
          << "token " << equal << " is " << next[0] << ", not "
          << golden.tokens[equal];
      break;
    }
  }
  model.Release(cache);
  return equal;
}

// Every test runs on every implementation.
class HuggingFaceParity : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Backends, HuggingFaceParity,
                         ::testing::ValuesIn(ModelBackends()),
                         [](const auto& test) { return test.param; });

TEST_P(HuggingFaceParity, CharacterModel) {
  auto model = LoadModel({.folder = SourcePath("deploy/models/nanogpt-char"),
                          .threads = 1,
                          .backend = GetParam()});
  ASSERT_TRUE(model.ok()) << model.status();
  size_t equal = 0, total = 0;
  for (const Golden& golden : ReadGoldens("nanogpt-char.json")) {
    SCOPED_TRACE(total);
    equal += ExpectGreedyText(**model, golden, golden.tokens.size());
    total += golden.tokens.size();
  }
  EXPECT_GE(equal, total * 9 / 10) << "of " << total;
}

void ExpectLogits(LanguageModel& model, const Golden& golden) {
  const CacheId cache = model.NewSequence();
  const auto logits =
      Prefill(model, cache, golden.prompt, model.info().max_rows);
  ASSERT_TRUE(logits.ok()) << logits.status();
  const absl::Span<const float> row = (*logits)->Row(0);
  ASSERT_EQ(row.size(), golden.logits.size());
  for (size_t token = 0; token < row.size(); ++token) {
    EXPECT_NEAR(row[token], golden.logits[token], kSameLogit) << token;
  }
  model.Release(cache);
}

// Random weights: any mix-up in the layers shows in the logits.
void ExpectGoldens(const std::string& folder, const std::string& backend,
                   const std::string& goldens) {
  auto model = LoadModel({.folder = folder, .threads = 1, .backend = backend});
  ASSERT_TRUE(model.ok()) << model.status();
  for (const Golden& golden : ReadGoldens(goldens)) {
    SCOPED_TRACE(golden.prompt.size());
    ExpectLogits(**model, golden);
    EXPECT_EQ(ExpectGreedyText(**model, golden, golden.tokens.size()),
              golden.tokens.size());
  }
}

const std::string kFolders = SourcePath("tests/common/model/goldens/");

TEST_P(HuggingFaceParity, RandomQwen3) {
  ExpectGoldens(kFolders + "tiny-qwen3", GetParam(), "tiny-qwen3.json");
}

// The last layers have windows.
TEST_P(HuggingFaceParity, RandomQwen3WithWindows) {
  ExpectGoldens(kFolders + "tiny-qwen3-windows", GetParam(),
                "tiny-qwen3-windows.json");
}

TEST_P(HuggingFaceParity, RandomQwen3Moe) {
  ExpectGoldens(kFolders + "tiny-qwen3-moe", GetParam(), "tiny-qwen3-moe.json");
}

// The weights of a row's experts do not sum to one.
TEST_P(HuggingFaceParity, RandomQwen3MoeWithPlainWeights) {
  const std::string folder =
      ::testing::TempDir() + "/hf_parity_plain_" + GetParam();
  std::filesystem::remove_all(folder);
  std::filesystem::copy(kFolders + "tiny-qwen3-moe", folder);
  std::ifstream file(folder + "/config.json");
  nlohmann::json config = nlohmann::json::parse(file);
  config["norm_topk_prob"] = false;
  std::ofstream(folder + "/config.json") << config;
  ExpectGoldens(folder, GetParam(), "tiny-qwen3-moe-plain.json");
  std::filesystem::remove_all(folder);
}

TEST_P(HuggingFaceParity, RandomOlmo2) {
  ExpectGoldens(kFolders + "tiny-olmo2", GetParam(), "tiny-olmo2.json");
}

// Its longest prompt has twelve windows.
TEST_P(HuggingFaceParity, RandomGemma3) {
  ExpectGoldens(kFolders + "tiny-gemma3", GetParam(), "tiny-gemma3.json");
}

// Its softcaps change most scores and logits.
TEST_P(HuggingFaceParity, RandomGemma2) {
  ExpectGoldens(kFolders + "tiny-gemma2", GetParam(), "tiny-gemma2.json");
}

// All layers have a window.
TEST_P(HuggingFaceParity, RandomQwen3MoeWithWindows) {
  ExpectGoldens(kFolders + "tiny-qwen3-moe-windows", GetParam(),
                "tiny-qwen3-moe-windows.json");
}

// nullptr, and the test is skipped, where there is no such folder.
std::unique_ptr<LanguageModel> LoadDefaultModel(const std::string& backend) {
  const char* home = std::getenv("HOME");
  const char* set = std::getenv("ESPALIER_TEST_MODEL");
  const std::string folder =
      set != nullptr ? set
                     : std::string(home != nullptr ? home : "") +
                           "/.cache/espalier/models/smollm2-135m-instruct-bf16";
  if (!std::filesystem::exists(folder)) return nullptr;
  auto model = LoadModel(
      {.folder = folder, .threads = 1, .max_context = 512, .backend = backend});
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

constexpr const char* kNoModel =
    "the default model is not there in bfloat16: deploy/setup.sh --tests makes "
    "it; or set ESPALIER_TEST_MODEL";

// Set ESPALIER_PARITY_ALL to compare all goldens, to their end.
TEST_P(HuggingFaceParity, DefaultModel) {
  const auto model = LoadDefaultModel(GetParam());
  if (model == nullptr) GTEST_SKIP() << kNoModel;
  std::vector<Golden> goldens = ReadGoldens("smollm2-135m-instruct.json");
  const bool all = std::getenv("ESPALIER_PARITY_ALL") != nullptr;
  size_t equal = 0, total = 0;
  // Every fifth prompt: chat, code and plain text are among them.
  for (size_t i = 0; i < goldens.size(); i += all ? 1 : 5) {
    SCOPED_TRACE(i);
    const size_t tokens =
        std::min<size_t>(goldens[i].tokens.size(), all ? 64 : 24);
    equal += ExpectGreedyText(*model, goldens[i], tokens);
    total += tokens;
  }
  EXPECT_GE(equal, total * 9 / 10) << "of " << total;
}

// Bit for bit, on the real shapes; for libtorch see same_rows.h.
TEST_P(HuggingFaceParity, TreeRowsOfTheDefaultModelAreWhatDecodingGives) {
  const auto model = LoadDefaultModel(GetParam());
  if (model == nullptr) GTEST_SKIP() << kNoModel;
  std::vector<TokenId> prompt;
  for (TokenId i = 0; i < 70; ++i) prompt.push_back(100 + 37 * i);
  const CacheId tree = model->NewSequence(), chain = model->NewSequence();
  for (CacheId cache : {tree, chain}) {
    ASSERT_TRUE(Prefill(*model, cache, prompt, cache == tree ? 64 : 9).ok());
  }
  // A comb: row 2 i + 2 is the child of row 2 i; odd rows are leaves.
  const std::vector<TokenId> tokens = {5000, 5001, 5002, 5003, 5004,
                                       5005, 5006, 5007, 5008};
  const std::vector<int32_t> parents = {-1, 0, 0, 2, 2, 4, 4, 6, 6};
  const SequenceRows rows = {
      .cache = tree, .tokens = tokens, .parents = parents, .num_logit_rows = 9};
  const auto logits = model->Forward({&rows, 1});
  ASSERT_TRUE(logits.ok()) << logits.status();
  for (int64_t row = 0; row < 9; row += 2) {
    const auto alone = Prefill(*model, chain, {tokens[row]}, 1);
    ASSERT_TRUE(alone.ok()) << alone.status();
    const auto in_tree = (*logits)->Row(row), decoded = (*alone)->Row(0);
    EXPECT_TRUE(GetParam() == "native" ? in_tree == decoded
                                       : testing::SameRows(in_tree, decoded))
        << "row " << row;
  }
}

}  // namespace
}  // namespace espalier
