// Drafters on the kernels for GPUs against the CPU's engine: random heads of
// every layout, in bfloat16 both. Emulated, or on $ESPALIER_TEST_DEVICE.
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/base/bf16.h"
#include "common/cuda/cuda_device.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/drafter/dflash/tiny_dflash.h"
#include "tests/drafter/draft_testing.h"
#include "tests/drafter/eagle/wide_eagle.h"
#include "tests/testing/cuda_test_device.h"
#include "tests/testing/tiny_model.h"

namespace espalier::drafter::cuda_drafters_test {
namespace {

using testing::EagleLayout;
using ::testing::HasSubstr;
using testing::kTinyVocab;
using Options = std::map<std::string, std::string>;
using Path = std::vector<TokenId>;

constexpr DraftBudget kBudget = {.max_nodes = 20, .max_depth = 5};
// Returns what rounding to bf16 in other places makes of the log-probability of
// a path, a sum of as many terms as it has tokens.
// A router may choose other experts after it, so with experts it is twice that.
double Rounding(const std::vector<TokenId>& path, bool has_experts) {
  return (has_experts ? 2 : 1) *
         (0.1 + 0.06 * static_cast<double>(path.size()));
}

// A drafter of the test: type and options, beside where it runs.
struct Subject {
  std::string name;
  std::string type;
  Options options;
  bool is_typical = false;  // of its type
};

const std::string& Folder() {
  static const std::string* const folder = [] {
    auto* const path = new std::string(::testing::TempDir() + "cuda_drafters_" +
                                       std::to_string(getpid()));
    testing::WriteWideLlama(*path + "/target");
    testing::WriteWideMistral(*path + "/windows");
    testing::WriteWideGemma3(*path + "/gemma");
    testing::WriteWideQwen3Moe(*path + "/experts");
    for (const EagleLayout& layout : testing::EagleLayouts()) {
      testing::WriteWideEagle(layout, *path + "/" + layout.name);
    }
    for (int64_t vocab : {kTinyVocab, int64_t{200}}) {
      for (bool causal : {false, true}) {
        testing::TinyDflash drafter =
            testing::MakeTinyDflash(vocab, testing::kWideDflash);
        if (causal) drafter.config["dflash_config"]["causal_head"] = true;
        testing::WriteTinyDflash(drafter, *path + "/dflash_" +
                                              std::to_string(vocab) +
                                              (causal ? "_causal" : ""));
      }
    }
    return path;
  }();
  return *folder;
}

std::vector<Subject> Subjects() {
  std::vector<Subject> subjects;
  const Options grower = {{"width", "8"}, {"least_reach", "0"}};
  const auto add = [&](const std::string& name, const std::string& type,
                       Options options, bool is_typical) {
    if (type != "dflash") options.insert(grower.begin(), grower.end());
    subjects.push_back({name, type, std::move(options), is_typical});
  };
  for (const EagleLayout& layout : testing::EagleLayouts()) {
    add(layout.name, "eagle", {{"model", layout.name}},
        layout.name == "eagle1" || layout.name == "eagle31");
  }
  for (const char* name : {"dflash_258", "dflash_200", "dflash_258_causal"}) {
    add(name, "dflash", {{"model", name}}, true);
  }
  add("lm", "lm", {{"model", "target"}}, true);
  for (const char* name : {"windows", "gemma", "experts"}) {
    add(std::string("lm_") + name, "lm", {{"model", name}}, false);
  }
  add("lm_early_exit", "lm", {{"layers", "1"}}, false);
  return subjects;
}

std::unique_ptr<Drafter> Make(const Subject& subject, const std::string& device,
                              const Options& more = {}) {
  Options options = subject.options;
  options.insert(more.begin(), more.end());
  if (options.contains("model")) {
    options["model"] = Folder() + "/" + options["model"];
  }
  options.insert(
      {{"device", device}, {"compute_type", "bfloat16"}, {"noise_scale", "1"}});
  return MakeDrafter(subject.type, {.options = options,
                                    .target_folder = Folder() + "/target",
                                    .vocab_size = kTinyVocab});
}

struct Text {
  std::vector<TokenId> tokens;
  FeatureRows features;  // of all tokens but the last

  Text(int64_t length, int64_t width, uint64_t seed) {
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal;
    tokens = RandomTokens(random, length, kTinyVocab);
    features.width = width;
    features.data.resize((length - 1) * width);
    for (uint16_t& value : features.data) value = FloatToBf16(normal(random));
  }
  ViewAndFeatures View(uint64_t number, float temperature) const {
    return {.view = {.id = {1, number},
                     .tokens = tokens,
                     .sampling = {.temperature = temperature, .seed = 11},
                     .budget = kBudget},
            .rows = &features};
  }
};

std::map<Path, double> NodesByPath(const TokenTree& tree) {
  const std::vector<Path> paths = Paths(tree);
  std::map<Path, double> nodes;
  for (int64_t i = 1; i < tree.num_nodes(); ++i) {
    nodes[paths[i]] = tree.log_probs[i];
  }
  return nodes;
}

// Returns the least log-probability among the nodes, or those below one parent.
double Least(const std::map<Path, double>& nodes, const Path* parent) {
  double least = 0;
  for (const auto& [path, log_prob] : nodes) {
    if (parent == nullptr || Path(path.begin(), path.end() - 1) == *parent) {
      least = std::min(least, log_prob);
    }
  }
  return least;
}

// Nodes of `tree` that `other` lacks are so near its last that rounding decides
// or hang on one that is.
int CountShared(const std::map<Path, double>& tree,
                const std::map<Path, double>& other, bool has_experts) {
  int shared = 0;
  for (const auto& [path, log_prob] : tree) {
    const auto found = other.find(path);
    if (found != other.end()) {
      EXPECT_NEAR(log_prob, found->second, Rounding(path, has_experts));
      ++shared;
      continue;
    }
    const Path parent(path.begin(), path.end() - 1);
    if (!parent.empty() && !other.contains(parent)) continue;
    EXPECT_LE(log_prob, std::max(Least(other, nullptr), Least(other, &parent)) +
                            Rounding(path, has_experts))
        << "missing: " << ::testing::PrintToString(path);
  }
  return shared;
}

void ExpectNear(const TokenTree& tree, const TokenTree& wanted,
                bool has_experts) {
  const auto nodes = NodesByPath(tree), other = NodesByPath(wanted);
  ASSERT_EQ(nodes.size(), other.size());
  ASSERT_GT(other.size(), 4u);
  CountShared(nodes, other, has_experts);
  EXPECT_GE(CountShared(other, nodes, has_experts),
            static_cast<int>(other.size()) * 3 / 4);
}

class CudaDraftersTest : public ::testing::TestWithParam<Subject> {
 protected:
  void SetUp() override {
    const std::string device = testing::CudaTestDevice();
    if (device == "emulated") return;
    const auto opened = cuda::OpenCudaDevice(0);
    ASSERT_TRUE(opened.ok()) << opened.status();
  }
  std::unique_ptr<Drafter> OnDevice(const Options& more = {}) const {
    return Make(GetParam(), testing::CudaTestDevice(), more);
  }
  std::unique_ptr<Drafter> OnCpu() const { return Make(GetParam(), "cpu"); }
};
INSTANTIATE_TEST_SUITE_P(All, CudaDraftersTest, ::testing::ValuesIn(Subjects()),
                         [](const auto& test) { return test.param.name; });

TEST_P(CudaDraftersTest, TreesAreTheCpusButForNearTies) {
  const auto cpu = OnCpu(), device = OnDevice();
  const int64_t width = WantedFeatures(*cpu).width();
  ASSERT_EQ(WantedFeatures(*device).taps, WantedFeatures(*cpu).taps);
  uint64_t number = 0;
  for (int64_t length : {2, 40, 150}) {
    SCOPED_TRACE(length);
    const Text text(length, width, ++number);
    const ViewAndFeatures view = text.View(number, length == 40 ? 0.8f : 0);
    ExpectNear(DraftOne(*device, view), DraftOne(*cpu, view),
               /*has_experts=*/GetParam().name == "lm_experts");
  }
}

// In fp8, weights are rounded, and nothing else is done in another way: random
// ones, which e4m3 holds, give the same bits.
TEST_P(CudaDraftersTest, Fp8RoundsWeightsAlone) {
  if (!GetParam().is_typical) GTEST_SKIP() << "as others of its type";
  const auto both = [this](const Options& more, auto&& compare) {
    Options narrow = more;
    narrow["compute_type"] = "fp8";
    const auto a = OnDevice(more), b = OnDevice(narrow);
    const Text text(40, WantedFeatures(*a).width(), 1);
    compare(DraftOne(*a, text.View(1, 0)), DraftOne(*b, text.View(1, 0)));
  };
  both({}, [](const TokenTree& bf16, const TokenTree& fp8) {
    EXPECT_NE(fp8.log_probs, bf16.log_probs);
  });
  // Shapes of random weights are of whole vocabularies, and of EAGLE-3.
  if (GetParam().name == "dflash_200" || GetParam().name == "eagle1") return;
  both({{"random_weights", "3"}},
       [](const TokenTree& bf16, const TokenTree& fp8) {
         EXPECT_EQ(fp8.tokens, bf16.tokens);
         EXPECT_EQ(fp8.parents, bf16.parents);
         EXPECT_EQ(fp8.log_probs, bf16.log_probs);
       });
}

// Rounds of several sequences together are, to the bit, those of each alone
// from its whole text.
TEST_P(CudaDraftersTest, RoundsOfABatchAreThoseOfWholeTexts) {
  if (!GetParam().is_typical) GTEST_SKIP() << "as others of its type";
  const auto together = OnDevice();
  const int64_t width = WantedFeatures(*together).width();
  const std::vector<int64_t> lengths = {3, 66};
  for (int64_t more : {0, 2}) {
    std::vector<Text> texts;
    for (size_t i = 0; i < lengths.size(); ++i) {
      Text& text = texts.emplace_back(80, width, i);
      text.tokens.resize(lengths[i] + more);
      text.features.CutFrom(lengths[i] + more - 1);
    }
    std::vector<ViewAndFeatures> views;
    for (size_t i = 0; i < texts.size(); ++i) {
      views.push_back(texts[i].View(i, 0.4f * static_cast<float>(i)));
    }
    const std::vector<TokenTree> trees = DraftAll(*together, views);
    for (size_t i = 0; i < views.size(); ++i) {
      const TokenTree alone = DraftOne(*OnDevice(), views[i]);
      EXPECT_EQ(trees[i].tokens, alone.tokens);
      EXPECT_EQ(trees[i].parents, alone.parents);
      EXPECT_EQ(trees[i].log_probs, alone.log_probs);
    }
  }
}

// A text that was read before needs no features for its pages.
TEST_P(CudaDraftersTest, PagesOfAnEarlierTextAreTaken) {
  if (!GetParam().is_typical) GTEST_SKIP() << "as others of its type";
  const auto drafter = OnDevice();
  const int64_t width = WantedFeatures(*drafter).width();
  const Text text(100, width, 5);
  const TokenTree first = DraftOne(*drafter, text.View(1, 0));
  DraftOne(*drafter, text.View(1, 0));  // offers its pages
  drafter->Forget({1, 1});
  Text later = text;
  if (width > 0) later.features.CutBefore(64);
  const TokenTree second = DraftOne(*drafter, later.View(2, 0));
  EXPECT_EQ(second.tokens, first.tokens);
  EXPECT_EQ(second.log_probs, first.log_probs);
  const TokenTree alone = DraftOne(*OnDevice(), later.View(2, 0));
  EXPECT_EQ(alone.log_probs == first.log_probs, width == 0);
}

absl::Status ErrorOf(const std::string& type, Options options) {
  if (options.contains("model")) {
    options["model"] = Folder() + "/" + options["model"];
  }
  DrafterRegistry registry("drafter");
  RegisterDrafters(registry);
  return registry
      .Create(type, {.options = options,
                     .target_folder = Folder() + "/target",
                     .vocab_size = kTinyVocab})
      .status();
}

TEST(CudaDrafterOptionsTest, NameWhatIsWrong) {
  const absl::Status unknown =
      ErrorOf("eagle", {{"model", "eagle3"}, {"device", "tpu"}});
  EXPECT_EQ(unknown.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(unknown.message()),
              AllOf(HasSubstr("device"), HasSubstr("tpu"), HasSubstr("cuda")));
  const absl::Status type = ErrorOf("dflash", {{"model", "dflash_258"},
                                               {"device", "emulated"},
                                               {"compute_type", "int8"}});
  EXPECT_THAT(std::string(type.message()),
              AllOf(HasSubstr("compute_type"), HasSubstr("bfloat16")));
  if (cuda::OpenCudaDevice(0).ok()) return;
  for (const char* kind : {"eagle", "dflash", "lm"}) {
    Options options = {{"device", "cuda"}};
    if (std::string(kind) == "eagle") options["model"] = "eagle3";
    if (std::string(kind) == "dflash") options["model"] = "dflash_258";
    if (std::string(kind) == "lm") options["layers"] = "1";
    const absl::Status none = ErrorOf(kind, options);
    EXPECT_EQ(none.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(none.message()),
                AllOf(HasSubstr(kind), HasSubstr("device \"cuda\"")));
  }
}

TEST(CudaDrafterOptionsTest, NameWhatTheKernelsDoNotCover) {
  const std::string folder = Folder() + "/heads_of_32";
  testing::TinyDflashShape shape = testing::kWideDflash;
  shape.head_dim = 32;
  testing::WriteTinyDflash(testing::MakeTinyDflash(kTinyVocab, shape), folder);
  const absl::Status status =
      ErrorOf("dflash", {{"model", "heads_of_32"}, {"device", "emulated"}});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("heads of 64, 128 or 256"));
  testing::TinyDflash windowed =
      testing::MakeTinyDflash(kTinyVocab, testing::kWideDflash);
  windowed.config.merge_patch(
      {{"use_sliding_window", true}, {"sliding_window", 20}});
  windowed.config["layer_types"] = std::vector<std::string>(
      windowed.config["num_hidden_layers"], "sliding_attention");
  testing::WriteTinyDflash(windowed, Folder() + "/windowed_block");
  EXPECT_THAT(std::string(ErrorOf("dflash", {{"model", "windowed_block"},
                                             {"device", "emulated"}})
                              .message()),
              HasSubstr("a block drafter on a GPU has no sliding windows"));
}

}  // namespace
}  // namespace espalier::drafter::cuda_drafters_test
