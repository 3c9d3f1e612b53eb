#include "verifier/engine/session_part.h"

#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/scripted_language_model.h"
#include "verifier/rules/verification_rules.h"

namespace espalier::verifier {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class SessionPartTest : public ::testing::Test {
 protected:
  SessionPartTest() {
    Registry<VerificationRule> registry("rule");
    RegisterVerificationRules(registry);
    rules_[kDefaultRule] = *registry.Create(kDefaultRule);
    session_.cache = model_.NewSequence();
    session_.tokens = {1, 2, 3, 4};
    session_.job = std::make_unique<Job>();
    session_.job->request.tree = TokenTree::RootOnly(4);
    session_.job->request.tree.Add(0, 5, -1);
    session_.job->rule = &*rules_.begin();
  }
  TargetPass::Part Part(const PassShare& share, bool collects = false) {
    return PartOf(session_, share, model_, collects);
  }

  ScriptedLanguageModel model_{{}};
  Rules rules_;
  Session session_;
};

TEST_F(SessionPartTest, TheWorkIsThePromptBeforeTheRootAndTheTree) {
  const PassWork work = RemainingWork(session_, model_);
  EXPECT_EQ(work.prompt_rows, 3);
  EXPECT_EQ(work.tree_rows, 2);
  EXPECT_EQ(work.prompt_row_cost, 1);
  session_.job->request.logprobs.prompt = 0;
  EXPECT_GT(RemainingWork(session_, model_).prompt_row_cost, 1);
}

TEST_F(SessionPartTest, AShareOfThePromptHasNoTree) {
  const TargetPass::Part part = Part({.prompt_rows = 2});
  EXPECT_THAT(part.prompt, ElementsAre(1, 2));
  EXPECT_EQ(part.tree, nullptr);
  EXPECT_EQ(part.rows(), 2);
}

TEST_F(SessionPartTest, TheTreeComesWithItsRuleAndSampling) {
  const TargetPass::Part part = Part({.prompt_rows = 3, .with_tree = true});
  EXPECT_EQ(part.tree, &session_.job->request.tree);
  EXPECT_EQ(part.rule, rules_.begin()->second.get());
  EXPECT_EQ(part.sampling, &session_.job->request.update.sampling);
  EXPECT_EQ(part.rows(), 5);
}

TEST_F(SessionPartTest, FeaturesAreComputedFromWhereTheyEnd) {
  session_.taps = {0};
  session_.features.first_position = 2;
  EXPECT_EQ(Part({.prompt_rows = 2}, true).features, nullptr);
  const TargetPass::Part later = Part({.prompt_rows = 3}, true);
  EXPECT_EQ(later.features, &session_.features);
  EXPECT_THAT(later.taps, ElementsAre(0));
  EXPECT_THAT(Part({.prompt_rows = 3}, false).taps, IsEmpty());
}

TEST_F(SessionPartTest, PromptRowsAreRankedOnce) {
  session_.job->request.ranks = {.top = 4, .prompt_rows = 2};
  EXPECT_EQ(Part({.prompt_rows = 3, .with_tree = true}).ranked_prompt_rows, 2);
  session_.ranked_end = 2;
  EXPECT_EQ(Part({.prompt_rows = 3, .with_tree = true}).ranked_prompt_rows, 1);
}

}  // namespace
}  // namespace espalier::verifier
