#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/drafter/draft_testing.h"
#include "tests/testing/tiny_model.h"

namespace espalier::drafter {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Drafts for a model whose tokens are bytes.
class GrammarDrafterTest : public ::testing::Test {
 protected:
  GrammarDrafterTest() {
    const std::string folder = ::testing::TempDir() + "grammar_drafter";
    testing::WriteTinyLlama(folder);
    drafter_ = MakeDrafter("grammar", {.target_folder = folder,
                                       .vocab_size = testing::kTinyVocab});
  }

  // Returns the tokens of the tree after "xx" and `output`, once there are
  // `count`: until then a grammar is being compiled, or the few milliseconds
  // for its text have passed without this thread.
  std::vector<TokenId> Draft(const GrammarSpec& grammar,
                             const std::string& output, int64_t count,
                             const DraftBudget& budget = {.max_nodes = 20,
                                                          .max_depth = 20}) {
    std::vector<TokenId> tokens = {'x', 'x'};
    tokens.insert(tokens.end(), output.begin(), output.end());
    const SequenceView view = {.id = {1, 1},
                               .tokens = tokens,
                               .grammar = grammar,
                               .prompt_length = 2,
                               .budget = budget};
    const absl::Time give_up = absl::Now() + absl::Seconds(60);
    TokenTree tree = DraftOne(*drafter_, view);
    while (tree.num_nodes() <= count && absl::Now() < give_up) {
      std::this_thread::yield();
      tree = DraftOne(*drafter_, view);
    }
    EXPECT_TRUE(tree.Validate({.max_nodes = budget.max_nodes,
                               .max_depth = budget.max_depth,
                               .vocab_size = testing::kTinyVocab})
                    .ok());
    return {tree.tokens.begin() + 1, tree.tokens.end()};
  }

  std::unique_ptr<Drafter> drafter_;
};

const GrammarSpec kChoice = {.kind = GrammarSpec::Kind::kChoice,
                             .choices = {"hello", "help"}};

TEST_F(GrammarDrafterTest, DraftsWhatIsForced) {
  EXPECT_TRUE(drafter_->needs_grammar());
  EXPECT_THAT(Draft(kChoice, "", 3), ElementsAre('h', 'e', 'l'));
  EXPECT_THAT(Draft(kChoice, "hell", 2), ElementsAre('o', testing::kTinyImEnd));
  // Another grammar of the same sequence.
  const GrammarSpec regex = {.kind = GrammarSpec::Kind::kRegex,
                             .text = "h[0-9]ab"};
  EXPECT_THAT(Draft(regex, "h7", 3),
              ElementsAre('a', 'b', testing::kTinyImEnd));
}

TEST_F(GrammarDrafterTest, KeepsTheBudget) {
  EXPECT_THAT(Draft(kChoice, "", 2, {.max_nodes = 2, .max_depth = 9}),
              ElementsAre('h', 'e'));
  EXPECT_THAT(Draft(kChoice, "", 1, {.max_nodes = 9, .max_depth = 1}),
              ElementsAre('h'));
  EXPECT_THAT(Draft(kChoice, "", 0, {.max_nodes = 0, .max_depth = 1}),
              IsEmpty());
}

TEST_F(GrammarDrafterTest, WithoutAGrammarOrBesideItNothingIsDrafted) {
  EXPECT_THAT(Draft(kChoice, "he", 1), ElementsAre('l'));
  EXPECT_THAT(Draft(kChoice, "x", 0), IsEmpty());
  EXPECT_THAT(Draft(kChoice, "hel", 0), IsEmpty());
  EXPECT_THAT(Draft({}, "he", 0), IsEmpty());
  EXPECT_THAT(Draft({.kind = GrammarSpec::Kind::kRegex, .text = "("}, "", 0),
              IsEmpty());
  drafter_->Forget({1, 1});
}

}  // namespace
}  // namespace espalier::drafter
