#include "verifier/engine/room_keeper.h"

#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "prometheus/registry.h"
#include "tests/testing/fake_executor.h"
#include "tests/testing/scripted_language_model.h"

namespace espalier::verifier {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A pool of 40 tokens, and passes of 8 rows.
class RoomKeeperTest : public ::testing::Test {
 protected:
  // Opens a session of `length` tokens, of which it may have twice as many,
  // with a request or without.
  Session& Open(uint64_t number, int64_t length, bool asks = true) {
    Session& session = sessions_.Open({.sequence = {1, number}}, {});
    session.tokens.assign(length, 3);
    session.max_length = 2 * length;
    session.last_used = executor_.Now();
    if (asks) Ask(session);
    return session;
  }
  void Ask(Session& session) {
    session.job = std::make_unique<Job>();
    session.job->request.tree = TokenTree::RootOnly(3);
    session.job->deadline = executor_.Now() + absl::Seconds(5);
    session.job->turn = sessions_.NextPlace({});
  }
  // Caches the tokens before the root.
  void Compute(Session& session) {
    while (model_.Length(session.cache) + 1 < std::ssize(session.tokens)) {
      const std::vector<TokenId> token = {3};
      const std::vector<int32_t> parent = {kPrefixParent};
      const SequenceRows row = {
          .cache = session.cache, .tokens = token, .parents = parent};
      ASSERT_TRUE(model_.Forward({&row, 1}).ok());
      const std::vector<int32_t> path = {0};
      ASSERT_TRUE(model_.Keep(session.cache, path, {}).ok());
    }
  }

  FakeExecutor executor_;
  prometheus::Registry registry_;
  ScriptedLanguageModel model_{{.pool_tokens = 40}};
  VerifierMetrics metrics_{registry_, "target", {}};
  SessionTable sessions_{model_, executor_, 8};
  SharedPrefixes prefixes_{{.enabled = false}, model_, metrics_};
  RoomKeeper keeper_{{model_, executor_, sessions_, prefixes_, metrics_}, 8};
};

TEST_F(RoomKeeperTest, SessionsThatFitRunInTheOrderOfTheirRequests) {
  Session& first = Open(1, 5, false);
  Session& second = Open(2, 5);
  Ask(first);
  EXPECT_THAT(keeper_.TakeRoom(), ElementsAre(&second, &first));
  EXPECT_TRUE(first.admitted && second.admitted);
}

TEST_F(RoomKeeperTest, OneWithoutRoomWaitsAndTheWaitIsCounted) {
  Session& first = Open(1, 15);
  Session& second = Open(2, 10);
  EXPECT_THAT(keeper_.TakeRoom(), ElementsAre(&first));
  EXPECT_FALSE(second.admitted);
  EXPECT_TRUE(second.job->without_room_since.has_value());
  executor_.MoveClock(absl::Seconds(2));
  sessions_.Erase({1, 1});
  EXPECT_THAT(keeper_.TakeRoom(), ElementsAre(&second));
  EXPECT_EQ(second.job->timings.room, absl::Seconds(2));
}

TEST_F(RoomKeeperTest, TheYoungestGivesWayAndKeepsItsTokens) {
  Session& old = Open(1, 10);
  Session& young = Open(2, 10);
  keeper_.TakeRoom();
  Compute(young);
  old.tokens.resize(30, 3);
  Compute(old);
  for (int node = 0; node < 5; ++node) old.job->request.tree.Add(0, node, -1);
  EXPECT_THAT(keeper_.TakeRoom(), ElementsAre(&old));
  EXPECT_FALSE(young.admitted);
  EXPECT_TRUE(young.was_preempted);
  EXPECT_EQ(model_.Length(young.cache), 0);
  EXPECT_EQ(young.tokens.size(), 10);
  EXPECT_EQ(metrics_.preemptions.Value(), 1);
}

// The pool is full of one tenant's sessions when another one's session comes.
TEST_F(RoomKeeperTest, ATenantGetsItsPartFromOneThatHasMore) {
  const TenantShare full = {"full", 1}, late = {"late", 1};
  Session& oldest = Open(1, 10);
  Session& second = Open(2, 10);
  oldest.share = second.share = full;
  EXPECT_THAT(keeper_.TakeRoom(), ElementsAre(&oldest, &second));
  Compute(oldest);
  Compute(second);
  Session& third = Open(3, 10);
  third.share = full;
  EXPECT_THAT(keeper_.TakeRoom(), ElementsAre(&oldest, &second));
  Session& other = Open(4, 10);
  other.share = late;
  EXPECT_THAT(keeper_.TakeRoom(), ElementsAre(&oldest, &second, &other));
  Compute(other);
  oldest.tokens.resize(19, 3);
  Compute(oldest);
  other.tokens.resize(18, 3);
  EXPECT_THAT(keeper_.TakeRoom(), ElementsAre(&oldest, &other));
  EXPECT_TRUE(second.was_preempted);
  EXPECT_FALSE(third.admitted);
  // Its part is free again for the first.
  sessions_.Erase({1, 4});
  EXPECT_THAT(keeper_.TakeRoom(), ElementsAre(&oldest, &second));
}

TEST_F(RoomKeeperTest, RoomMayComeByADeadlineOrFromADormantSession) {
  Session& session = Open(1, 5);
  EXPECT_EQ(keeper_.WhenRoomMayCome(), executor_.Now() + absl::Seconds(1));
  session.job->deadline = executor_.Now() + absl::Milliseconds(10);
  EXPECT_EQ(keeper_.WhenRoomMayCome(), session.job->deadline);
}

TEST_F(RoomKeeperTest, WithoutRequestsNobodyRuns) {
  Open(1, 5, false);
  EXPECT_THAT(keeper_.TakeRoom(), IsEmpty());
}

}  // namespace
}  // namespace espalier::verifier
