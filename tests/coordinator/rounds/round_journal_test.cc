#include "coordinator/rounds/round_journal.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/coordinator/toy_cluster.h"

namespace espalier::coordinator {
namespace {

TEST(RoundJournal, KeepsTheLatestRoundsOfTheLatestRequests) {
  RoundJournal journal;
  const uint64_t num_requests = RoundJournal::kMaxRequests + 2;
  for (uint64_t key = 0; key < num_requests; ++key) {
    journal.Begin(key, {.id = absl::StrCat("r", key)});
    for (size_t i = 0; i < RoundJournal::kMaxRounds + 3; ++i) {
      journal.Add(key, {.step = static_cast<int64_t>(i + 1), .tokens = {1, 2}});
    }
  }
  journal.Add(0, {});  // gone: ignored
  journal.End(0);
  EXPECT_EQ(journal.Requests().size(), RoundJournal::kMaxRequests);
  EXPECT_EQ(journal.Requests()[0].id, absl::StrCat("r", num_requests - 1));
  EXPECT_FALSE(journal.Find("r0").has_value());
  const auto newest = journal.Find("");
  ASSERT_TRUE(newest.has_value());
  EXPECT_EQ(newest->num_rounds, RoundJournal::kMaxRounds + 3);
  EXPECT_EQ(newest->num_tokens, 2 * newest->num_rounds);
  EXPECT_EQ(newest->rounds.size(), RoundJournal::kMaxRounds);
  EXPECT_EQ(newest->rounds.front().step, 4);
}

TEST(RoundJournal, AClientFindsItsOwnRequest) {
  RoundJournal journal;
  journal.Begin(1, {.id = "1", .request_id = "a"});
  journal.Begin(2, {.id = "2", .request_id = "b"});
  EXPECT_EQ(journal.FindOwn("a")->id, "1");
  EXPECT_FALSE(journal.FindOwn("1").has_value());
}

TEST(RoundJournal, HoldsWhatARequestWentThrough) {
  ToyCluster cluster(2);
  const Seen seen = cluster.Run(ToyCluster::Request(18));
  const auto request = cluster.coordinator->journal().Find("");
  ASSERT_TRUE(request.has_value());
  EXPECT_FALSE(request->live);
  EXPECT_EQ(request->strategy, "union");
  EXPECT_THAT(request->drafters, ::testing::ElementsAre("d0", "d1"));
  std::vector<TokenId> tokens;
  for (const JournalRound& round : request->rounds) {
    tokens.insert(tokens.end(), round.tokens.begin(), round.tokens.end());
    EXPECT_EQ(round.tree.provenance.size(), round.tree.tokens.size());
  }
  EXPECT_EQ(tokens, seen.tokens);
}

}  // namespace
}  // namespace espalier::coordinator
