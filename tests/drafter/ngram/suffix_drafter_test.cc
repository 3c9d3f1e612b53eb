#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/drafter/draft_testing.h"

namespace espalier::drafter::suffix_drafter_test {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

using Text = std::vector<TokenId>;
using Options = std::map<std::string, std::string>;

constexpr int64_t kVocab = 1000;
constexpr DraftBudget kBudget = {.max_nodes = 4, .max_depth = 4};
const Options kKeeps = {{"earlier_answers", "true"}};

class SuffixDrafterTest : public ::testing::Test {
 protected:
  static std::unique_ptr<Drafter> Make(const Options& options) {
    return MakeDrafter("suffix", options, kVocab);
  }

  TokenTree Draft(Drafter& drafter, const Text& text,
                  absl::string_view salt = "", int64_t prompt_length = 1,
                  SamplingParams sampling = {}) {
    return DraftOne(drafter, SequenceView{.id = {1, ++last_},
                                          .tokens = text,
                                          .sampling = sampling,
                                          .prompt_length = prompt_length,
                                          .budget = kBudget,
                                          .cache_salt = salt});
  }

  // A request whose answer is all but the first token.
  void Answer(Drafter& drafter, const Text& text, absl::string_view salt = "",
              int64_t prompt_length = 1) {
    Draft(drafter, text, salt, prompt_length);
    drafter.Forget({1, last_});
  }

  uint64_t last_ = 0;
};

TEST_F(SuffixDrafterTest, DraftsWhatFollowedInItsOwnText) {
  auto drafter = Make({});
  const TokenTree tree = Draft(*drafter, {10, 11, 12, 13, 14, 99, 10, 11});
  EXPECT_THAT(tree.tokens, ElementsAre(11, 12, 13, 14, 99));
}

// The estimates are those of prompt lookup, up to shorter contexts that hardly
// weigh.
TEST_F(SuffixDrafterTest, ChancesAreWittenBellEstimates) {
  auto drafter = Make({});
  const Text text = {1, 2, 7, 3, 2, 8, 1, 2};
  const TokenTree tree = DraftOne(
      *drafter, SequenceView{.id = {2, 1},
                             .tokens = text,
                             .budget = {.max_nodes = 9, .max_depth = 1}});
  EXPECT_THAT(RootDistribution(tree),
              ElementsAre(Pair(7, DoubleNear(std::log(.5 + .125), 1e-6)),
                          Pair(8, DoubleNear(std::log(.125), 1e-6))));
}

TEST_F(SuffixDrafterTest, LearnsFromEarlierAnswersOfTheTenant) {
  auto drafter = Make(kKeeps);
  Answer(*drafter, {1, 5, 6, 7, 8}, "mine");
  const TokenTree tree = Draft(*drafter, {50, 51, 5, 6}, "mine");
  EXPECT_THAT(tree.tokens, ElementsAre(6, 7, 8));
}

TEST_F(SuffixDrafterTest, CountsOfTextAndAnswersAreOne) {
  auto drafter = Make(kKeeps);
  for (int i = 0; i < 3; ++i) Answer(*drafter, {1, 6, 7}, "mine");
  const TokenTree tree = Draft(*drafter, {6, 8, 50, 6}, "mine");
  // 6 was followed by 7 three times and by 8 once: 3 and 1 of 4 + 2.
  EXPECT_THAT(RootDistribution(tree),
              ElementsAre(Pair(7, DoubleNear(std::log(3. / 6), 1e-6)),
                          Pair(8, DoubleNear(std::log(1. / 6), 1e-6))));
}

TEST_F(SuffixDrafterTest, KeepsNoAnswersUnlessTheOperatorAllowsIt) {
  auto drafter = Make({});
  Answer(*drafter, {1, 5, 6, 7, 8});
  EXPECT_EQ(Draft(*drafter, {50, 51, 5, 6}).num_nodes(), 1);
}

TEST_F(SuffixDrafterTest, PromptsAreNotKept) {
  auto drafter = Make(kKeeps);
  Answer(*drafter, {1, 5, 6, 7, 8}, "mine", /*prompt_length=*/4);
  EXPECT_EQ(Draft(*drafter, {50, 51, 5, 6}, "mine").num_nodes(), 1);
  Answer(*drafter, {1, 5, 6, 7, 8}, "mine", /*prompt_length=*/0);  // unknown
  EXPECT_EQ(Draft(*drafter, {50, 51, 5, 6}, "mine").num_nodes(), 1);
}

TEST_F(SuffixDrafterTest, AnAnswerThatGrowsIsKeptOnce) {
  auto drafter = Make(kKeeps);
  Text text = {1};
  for (TokenId token : {5, 6, 7, 8}) {
    text.push_back(token);
    DraftOne(*drafter, SequenceView{.id = {2, 1},
                                    .tokens = text,
                                    .prompt_length = 1,
                                    .budget = kBudget,
                                    .cache_salt = "mine"});
  }
  drafter->Forget({2, 1});
  const auto chances = RootDistribution(Draft(*drafter, {50, 51, 6}, "mine"));
  EXPECT_THAT(chances, ElementsAre(Pair(7, DoubleNear(std::log(.5), 1e-6))));
}

// Whatever the others' texts are, a tenant's drafts are those that it would get
// alone.
TEST_F(SuffixDrafterTest, TenantsLearnNothingOfEachOther) {
  std::mt19937_64 random(41);
  auto shared = Make(kKeeps);
  auto alone = Make(kKeeps);
  int64_t nodes = 0;
  for (int i = 0; i < 200; ++i) {
    const Text others = RandomTokens(random, 30, 12);
    Answer(*shared, others, i % 2 == 0 ? "other" : "");
    const Text text = RandomTokens(random, 30, 12);
    const SamplingParams sampling = {.temperature = 0.5f * (i % 3),
                                     .seed = random()};
    const TokenTree tree = Draft(*shared, text, "mine", 1, sampling);
    shared->Forget({1, last_});
    const TokenTree expected = Draft(*alone, text, "mine", 1, sampling);
    alone->Forget({1, last_});
    EXPECT_EQ(tree.tokens, expected.tokens);
    EXPECT_EQ(tree.log_probs, expected.log_probs);
    nodes += tree.num_nodes() - 1;
  }
  EXPECT_GT(nodes, 200);
}

class SavedSuffixTest : public SuffixDrafterTest {
 protected:
  SavedSuffixTest()
      : path_(::testing::TempDir() + "answers_" + std::to_string(getpid())) {
    std::filesystem::remove(path_);
    options_["file"] = path_;
  }
  ~SavedSuffixTest() override { std::filesystem::remove(path_); }

  absl::Status LoadError(DrafterOptions options) {
    options.options = options_;
    return NewSuffixDrafter(options).status();
  }

  const std::string path_;
  Options options_ = kKeeps;
};

TEST_F(SavedSuffixTest, AnswersOutliveTheProcess) {
  auto first = Make(options_);
  Answer(*first, {1, 5, 6, 7, 8}, "mine");
  Answer(*first, {1, 5, 6, 9}, "other");
  first.reset();
  auto second = Make(options_);
  EXPECT_THAT(Draft(*second, {50, 51, 5, 6}, "mine").tokens,
              ElementsAre(6, 7, 8));
  EXPECT_THAT(Draft(*second, {50, 51, 5, 6}, "other").tokens,
              ElementsAre(6, 9));
}

TEST_F(SavedSuffixTest, OnlyItsUserCanReadTheFile) {
  Make(options_).reset();
  struct stat file = {};
  ASSERT_EQ(stat(path_.c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0600u);
}

TEST_F(SavedSuffixTest, AFileThatDoesNotFitIsRefusedAndStays) {
  Make(options_).reset();
  const auto other = LoadError({.vocab_size = kVocab + 1});
  EXPECT_EQ(other.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(other.message()),
              HasSubstr("drafter suffix: option file: " + path_ +
                        ": saved for another tokenizer"));
  EXPECT_FALSE(
      LoadError({.vocab_size = kVocab, .tokenizer_fingerprint = 5}).ok());
  std::ofstream(path_) << "notes";
  EXPECT_THAT(std::string(LoadError({.vocab_size = kVocab}).message()),
              HasSubstr("another kind of file"));
  std::string content;
  std::ifstream(path_) >> content;
  EXPECT_EQ(content, "notes");
}

TEST_F(SavedSuffixTest, AFileWithoutAnswersMakesNoSense) {
  options_["earlier_answers"] = "false";
  EXPECT_THAT(std::string(LoadError({.vocab_size = kVocab}).message()),
              HasSubstr("option file: nothing is kept"));
}

}  // namespace
}  // namespace espalier::drafter::suffix_drafter_test
