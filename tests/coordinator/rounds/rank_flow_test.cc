// Ranks: from the verifier to the drafters that want them, and only there.

#include "gtest/gtest.h"
#include "tests/coordinator/toy_cluster.h"

namespace espalier::coordinator {
namespace {

using Behaviour = FakeDraftEndpoint::Behaviour;

// A cluster whose verifier returns a row for each round: its number.
struct RankCluster : ToyCluster {
  explicit RankCluster(int num_drafters) : ToyCluster(num_drafters) {
    verifier.Behave([this] {
      FakeVerifyEndpoint::Behaviour behaviour;
      behaviour.corrupt = [this](VerifyResult& result) {
        if (verifier.requests().back().ranks.top == 0) return;
        const auto round = static_cast<TokenId>(result.round);
        result.ranks = {
            .top = 1, .contexts = {1, 2}, .tokens = {round}, .log_probs = {-1}};
      };
      return behaviour;
    });
  }
};

// Returns the rounds whose rows a drafter got, in order.
std::vector<TokenId> RowsOf(const FakeDraftEndpoint& drafter) {
  std::vector<TokenId> rows;
  for (const ProposeRequest& request : drafter.requests()) {
    rows.insert(rows.end(), request.ranks.tokens.begin(),
                request.ranks.tokens.end());
  }
  return rows;
}

constexpr RankNeed kNeed = {.greedy = 3, .sampled = 9, .prompt_rows = 20};

TEST(RankFlowTest, NobodyAsksForThemUnlessADrafterWantsThem) {
  RankCluster cluster(2);
  cluster.Run(ToyCluster::Request(30));
  for (const VerifyRequest& round : cluster.verifier.requests()) {
    EXPECT_EQ(round.ranks, RanksRequest());
  }
}

TEST(RankFlowTest, ADrafterThatWantsThemGetsEachRowOnce) {
  RankCluster cluster(2);
  cluster.drafters[1]->ranks = kNeed;
  const auto request = ToyCluster::Request(100);
  EXPECT_EQ(cluster.Run(request).tokens, cluster.PlainText(request));
  const int64_t rounds = std::ssize(cluster.verifier.requests());
  ASSERT_GT(rounds, 4);
  int64_t with_ranks = 0;
  for (const VerifyRequest& round : cluster.verifier.requests()) {
    // The last token needs no draft, and so no ranks.
    if (round.ranks == RanksRequest()) continue;
    ++with_ranks;
    EXPECT_EQ(round.ranks, (RanksRequest{.top = 3, .prompt_rows = 20}));
  }
  EXPECT_GE(with_ranks, rounds - 1);
  const std::vector<TokenId> rows = RowsOf(*cluster.drafters[1]);
  ASSERT_GE(std::ssize(rows), rounds - 2);
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i], static_cast<TokenId>(i + 1));
  }
  EXPECT_TRUE(RowsOf(*cluster.drafters[0]).empty());
}

TEST(RankFlowTest, ASampledTextHasMore) {
  RankCluster cluster(1);
  cluster.drafters[0]->ranks = kNeed;
  auto request = ToyCluster::Request(10);
  request.sampling.temperature = 1;
  cluster.Run(request);
  EXPECT_EQ(cluster.verifier.requests()[0].ranks.top, 9);
}

TEST(RankFlowTest, RowsOfALostRequestAreSentAgain) {
  RankCluster cluster(1);
  FakeDraftEndpoint& drafter = *cluster.drafters[0];
  drafter.ranks = kNeed;
  drafter.Behave([&drafter] {
    Behaviour behaviour;
    if (drafter.requests().size() == 3) {
      behaviour.error = absl::ResourceExhaustedError("no room");
    }
    return behaviour;
  });
  cluster.Run(ToyCluster::Request(80));
  ASSERT_GT(drafter.requests().size(), 4u);
  const TokenRanks lost = drafter.requests()[2].ranks;
  ASSERT_FALSE(lost.empty());
  EXPECT_EQ(drafter.requests()[3].ranks.tokens[0], lost.tokens[0]);
}

TEST(RankFlowTest, ADrafterThatIsOffCostsNothing) {
  RankCluster cluster(2);
  cluster.drafters[1]->ranks = kNeed;
  cluster.coordinator->SetSettings(
      {.drafter = "d1", .role = DrafterRole::kOff},
      [](const absl::StatusOr<DrafterSettings>&) {});
  cluster.executor.RunUntilIdle();
  cluster.Run(ToyCluster::Request(20));
  for (const VerifyRequest& round : cluster.verifier.requests()) {
    EXPECT_EQ(round.ranks, RanksRequest());
  }
}

TEST(RankFlowTest, RowsThatMakeNoSenseAreTheVerifiersError) {
  ToyCluster cluster(1);
  cluster.drafters[0]->ranks = kNeed;
  FakeVerifyEndpoint::Behaviour behaviour;
  behaviour.corrupt = [](VerifyResult& result) {
    result.ranks = {
        .top = 1, .contexts = {1, 2}, .tokens = {999}, .log_probs = {-1}};
  };
  cluster.verifier.Behave(behaviour);
  EXPECT_EQ(cluster.Run(ToyCluster::Request(20)).status.code(),
            absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace espalier::coordinator
