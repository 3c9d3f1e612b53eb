#include "verifier/engine/session_table.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/fake_executor.h"
#include "tests/testing/scripted_language_model.h"

namespace espalier::verifier {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

class SessionTableTest : public ::testing::Test {
 protected:
  Session& Open(uint64_t epoch, uint64_t number, int delay_seconds = 0) {
    Session& session = table_.Open({.sequence = {epoch, number}},
                                   absl::Seconds(delay_seconds));
    session.last_used = clock_.Now();
    clock_.MoveClock(absl::Seconds(1));
    return session;
  }

  FakeExecutor clock_;
  ScriptedLanguageModel model_{{}};
  SessionTable table_{model_, clock_, 3};
};

TEST_F(SessionTableTest, ASessionHasACacheUntilItIsErased) {
  Session& session = Open(1, 1);
  EXPECT_EQ(table_.Find({1, 1}), &session);
  EXPECT_EQ(table_.Find({2, 1}), nullptr);
  EXPECT_EQ(model_.num_sequences(), 1);
  table_.Erase({1, 1});
  table_.Erase({1, 1});
  EXPECT_EQ(model_.num_sequences(), 0);
  EXPECT_EQ(table_.size(), 0);
}

TEST_F(SessionTableTest, NobodyGivesWayWhileThereIsRoom) {
  Open(1, 1);
  Open(1, 2);
  const auto gives_way = table_.GivesWayTo(2);
  ASSERT_TRUE(gives_way.ok());
  EXPECT_FALSE(gives_way->has_value());
}

TEST_F(SessionTableTest, TheLargestHolderLosesItsOldestSessionWithoutARequest) {
  Open(1, 1).job = std::make_unique<Job>();
  Open(1, 2);
  Open(1, 3);
  const auto gives_way = table_.GivesWayTo(2);
  ASSERT_TRUE(gives_way.ok());
  EXPECT_EQ(*gives_way, (SequenceId{1, 2}));
}

TEST_F(SessionTableTest, NobodyGivesWayToOneWhoHoldsAsMany) {
  Open(1, 1);
  Open(1, 2);
  Open(2, 1);
  // Afterwards the second would hold what the first holds now.
  for (uint64_t epoch : {1, 2}) {
    const auto gives_way = table_.GivesWayTo(epoch);
    EXPECT_EQ(gives_way.status().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(gives_way.status().message(), HasSubstr("all 3 sessions"));
  }
  EXPECT_TRUE(table_.GivesWayTo(3).ok());
}

TEST_F(SessionTableTest, AgesFollowArrivalAndPriority) {
  const Session* first = &Open(1, 1);
  const Session* late = &Open(1, 2, 10);
  const Session* third = &Open(1, 3);
  EXPECT_THAT(table_.ByAge(), ElementsAre(first, third, late));
}

TEST_F(SessionTableTest, PlacesOfOneMomentFollowEachOther) {
  const Place a = table_.NextPlace(absl::ZeroDuration());
  const Place b = table_.NextPlace(absl::ZeroDuration());
  EXPECT_LT(a, b);
}

TEST_F(SessionTableTest, IdleSessionsHaveNoRequest) {
  Open(1, 1);
  Open(1, 2).job = std::make_unique<Job>();
  Open(1, 3);
  EXPECT_THAT(table_.IdleFor(absl::Seconds(3)), ElementsAre(SequenceId{1, 1}));
  EXPECT_THAT(table_.IdleFor(absl::Seconds(1)),
              UnorderedElementsAre(SequenceId{1, 1}, SequenceId{1, 3}));
}

TEST_F(SessionTableTest, ALateRequestIsAnsweredAndItsSessionStays) {
  absl::Status answer;
  Session& session = Open(1, 1);
  session.job = std::make_unique<Job>();
  session.job->deadline = clock_.Now();
  session.job->done = [&](absl::StatusOr<VerifyResult> result) {
    answer = result.status();
  };
  Session& other = Open(1, 2);
  other.job = std::make_unique<Job>();
  other.job->deadline = absl::InfiniteFuture();
  table_.AnswerLate();
  EXPECT_TRUE(absl::IsDeadlineExceeded(answer));
  EXPECT_EQ(session.last_used, clock_.Now());
  EXPECT_THAT(table_.WithRequests(), ElementsAre(&other));
}

TEST_F(SessionTableTest, OnlySessionsBetweenTwoRoundsAreAwaited) {
  Session& session = Open(1, 1);
  session.answered = clock_.Now();
  session.answered_rows = 4;
  session.return_time.Observe(absl::Seconds(2));
  Open(1, 2).job = std::make_unique<Job>();
  const auto awaited = table_.Awaited();
  ASSERT_EQ(awaited.size(), 1);
  EXPECT_EQ(awaited[0].rows, 4);
  EXPECT_GT(awaited[0].due, absl::ZeroDuration());
}

}  // namespace
}  // namespace espalier::verifier
