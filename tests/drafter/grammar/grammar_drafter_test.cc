#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/drafter/draft_testing.h"
#include "tests/testing/tiny_model.h"

namespace espalier::drafter {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
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

  // Returns the tree after "xx" and `output`. A grammar is compiled meanwhile.
  TokenTree Draft(const GrammarSpec& grammar, const std::string& output,
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
    while (tree.num_nodes() == 1 && absl::Now() < give_up && waits_) {
      std::this_thread::yield();
      tree = DraftOne(*drafter_, view);
    }
    EXPECT_TRUE(tree.Validate({.max_nodes = budget.max_nodes,
                               .max_depth = budget.max_depth,
                               .vocab_size = testing::kTinyVocab})
                    .ok());
    return tree;
  }
  std::vector<TokenId> Tokens(const TokenTree& tree) {
    return {tree.tokens.begin() + 1, tree.tokens.end()};
  }

  std::unique_ptr<Drafter> drafter_;
  bool waits_ = true;
};

const GrammarSpec kChoice = {.kind = GrammarSpec::Kind::kChoice,
                             .choices = {"hello", "help"}};

TEST_F(GrammarDrafterTest, DraftsWhatIsForced) {
  EXPECT_TRUE(drafter_->needs_grammar());
  EXPECT_THAT(Tokens(Draft(kChoice, "")), ElementsAre('h', 'e', 'l'));
  EXPECT_THAT(Tokens(Draft(kChoice, "hell")),
              ElementsAre('o', testing::kTinyImEnd));
  // Another grammar of the same sequence.
  EXPECT_THAT(
      Tokens(
          Draft({.kind = GrammarSpec::Kind::kRegex, .text = "h[0-9]ab"}, "h7")),
      ElementsAre('a', 'b', testing::kTinyImEnd));
}

TEST_F(GrammarDrafterTest, KeepsTheBudget) {
  EXPECT_THAT(Tokens(Draft(kChoice, "", {.max_nodes = 2, .max_depth = 9})),
              ElementsAre('h', 'e'));
  EXPECT_THAT(Tokens(Draft(kChoice, "", {.max_nodes = 9, .max_depth = 1})),
              ElementsAre('h'));
  waits_ = false;
  EXPECT_THAT(Tokens(Draft(kChoice, "", {.max_nodes = 0, .max_depth = 1})),
              IsEmpty());
}

TEST_F(GrammarDrafterTest, WithoutAGrammarOrBesideItNothingIsDrafted) {
  EXPECT_THAT(Tokens(Draft(kChoice, "he")), ElementsAre('l'));
  waits_ = false;
  EXPECT_THAT(Tokens(Draft(kChoice, "x")), IsEmpty());
  EXPECT_THAT(Tokens(Draft(kChoice, "hel")), IsEmpty());
  EXPECT_THAT(Tokens(Draft({}, "he")), IsEmpty());
  EXPECT_THAT(
      Tokens(Draft({.kind = GrammarSpec::Kind::kRegex, .text = "("}, "")),
      IsEmpty());
  drafter_->Forget({1, 1});
}

}  // namespace
}  // namespace espalier::drafter
