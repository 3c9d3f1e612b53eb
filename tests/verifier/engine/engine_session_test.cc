#include <optional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "verifier/engine/session.h"

namespace espalier::verifier {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Answer = std::optional<absl::StatusOr<VerifyResult>>;

// A request of `round`, whose answer comes to `answer`.
Job JobOf(uint64_t round, Answer& answer, TokenId root = 7) {
  Job job;
  job.request.update.round = round;
  job.request.tree = TokenTree::RootOnly(root);
  job.done = [&answer](absl::StatusOr<VerifyResult> result) {
    answer = std::move(result);
  };
  return job;
}

TEST(SessionTest, AnswersAnAnsweredRoundAgain) {
  Answer answer;
  Session session;
  Job job = JobOf(3, answer);
  session.asked = job.request;
  session.last_verify_result = VerifyResult{.round = 3, .tokens = {5}};
  ASSERT_TRUE(session.Repeat(job));
  ASSERT_TRUE(answer && answer->ok());
  EXPECT_THAT((*answer)->tokens, ElementsAre(5));
}

TEST(SessionTest, RefusesAnotherTreeForAnAnsweredRound) {
  Answer answer;
  Session session;
  session.asked = JobOf(3, answer).request;
  session.last_verify_result = VerifyResult{.round = 3};
  Job other = JobOf(3, answer, 8);
  ASSERT_TRUE(session.Repeat(other));
  EXPECT_EQ(answer->status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(answer->status().message(), HasSubstr("round 3 was answered"));
}

TEST(SessionTest, ARepeatedRequestTakesThePlaceOfTheWaitingOne) {
  Answer first, second;
  Session session;
  session.job = std::make_unique<Job>(JobOf(3, first));
  session.asked = session.job->request;
  Job again = JobOf(3, second);
  again.deadline = absl::FromUnixSeconds(9);
  ASSERT_TRUE(session.Repeat(again));
  EXPECT_TRUE(absl::IsCancelled(first->status()));
  EXPECT_FALSE(second);
  EXPECT_EQ(session.job->deadline, absl::FromUnixSeconds(9));
  session.Answer(VerifyResult{.round = 3});
  EXPECT_TRUE(second && second->ok());
  session.Answer(VerifyResult{.round = 3});  // there is none any more
}

TEST(SessionTest, AnotherRoundIsNoRepetition) {
  Answer first, second;
  Session session;
  session.job = std::make_unique<Job>(JobOf(3, first));
  session.asked = session.job->request;
  Job next = JobOf(4, second);
  EXPECT_FALSE(session.Repeat(next));
  EXPECT_FALSE(first);
  EXPECT_FALSE(second);
}

TEST(SessionTest, CountsTheTokensBeforeTheRootThatStay) {
  Session session;
  session.tokens = {1, 2, 3, 4};
  EXPECT_EQ(session.ReplaceTokens({.base_length = 2, .new_tokens = {3, 9}}), 3);
  EXPECT_THAT(session.tokens, ElementsAre(1, 2, 3, 9));
  // The root's K/V is not cached, even where the root is the same.
  EXPECT_EQ(session.ReplaceTokens({.base_length = 3, .new_tokens = {9}}), 3);
  EXPECT_EQ(session.ReplaceTokens({.base_length = 1, .new_tokens = {8}}), 1);
  EXPECT_THAT(session.tokens, ElementsAre(1, 8));
}

TEST(CutTreeTest, KeepsDistributionsOfWholeTreesAlone) {
  TokenTree tree = TokenTree::RootOnly(1);
  tree.Add(0, 2, -1);
  tree.Add(0, 3, -2);
  TokenTree whole = tree;
  CutTree(whole, 3);
  EXPECT_EQ(whole.num_nodes(), 3);
  CutTree(tree, 2);
  EXPECT_THAT(tree.tokens, ElementsAre(1, 2));
  EXPECT_THAT(tree.parents, ElementsAre(-1, 0));
}

}  // namespace
}  // namespace espalier::verifier
