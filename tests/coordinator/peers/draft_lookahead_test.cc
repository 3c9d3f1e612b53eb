// Drafting for the next round while the verifier works on this one. The clock
// stands still while code runs, so the times below are sums of the peers'
// delays.
#include "tests/coordinator/toy_cluster.h"

namespace espalier::coordinator {
namespace {

constexpr int64_t kTokens = 90;
constexpr int64_t kDepth = 8;
constexpr int64_t kRounds = kTokens / (kDepth + 1);
constexpr absl::Duration kPass = absl::Milliseconds(10);
constexpr absl::Duration kDraft = absl::Milliseconds(6);

class DraftLookaheadTest : public testing::Test {
 protected:
  explicit DraftLookaheadTest(Coordinator::Options options = {})
      : cluster_(1, std::move(options)) {
    cluster_.verifier.Behave({.delay = kPass});
    drafter().Behave({.delay = kDraft});
    drafter().supports_lookahead = true;
  }

  FakeDraftEndpoint& drafter() { return *cluster_.drafters[0]; }

  absl::Duration RunRequest() {
    GenerationRequest request = ToyCluster::Request(kTokens);
    request.speculation.max_depth = kDepth;
    const Seen seen = cluster_.Run(request);
    EXPECT_TRUE(seen.status.ok()) << seen.status;
    EXPECT_EQ(seen.tokens, cluster_.PlainText(request));
    return seen.report.timing.total;
  }

  double Count(const std::string& result) {
    return AddCounter(cluster_.metrics,
                      {.name = "espalier_lookahead_total",
                       .help = "Trees drafted for a round before it began",
                       .labels = {{"drafter", "d0"}, {"result", result}}})
        .Value();
  }

  ToyCluster cluster_;
};

// The first two rounds request drafts: the time of a pass is not known before.
TEST_F(DraftLookaheadTest, ATrueGuessTakesTheDraftOutOfTheRound) {
  EXPECT_EQ(RunRequest(), kRounds * kPass + 2 * kDraft);
  EXPECT_EQ(Count("hit"), kRounds - 2);
}

TEST_F(DraftLookaheadTest, AFalseGuessCostsNothing) {
  drafter().Behave({.delay = kDraft, .corrupt = [this](Proposal& proposal) {
                      // Correct up to one token before the end.
                      TokenId& last = proposal.tree.tokens.back();
                      last = (last + 1) % cluster_.target.vocab_size;
                    }});
  const absl::Duration time = RunRequest();
  EXPECT_EQ(Count("hit"), 0);
  EXPECT_GT(Count("miss"), kRounds / 2);
  drafter().supports_lookahead = false;
  EXPECT_EQ(time, RunRequest());
}

TEST_F(DraftLookaheadTest, WhoTakesLongerThanAPassIsLeftAlone) {
  drafter().Behave({.delay = kPass + absl::Milliseconds(1)});
  RunRequest();
  for (const ProposeRequest& request : drafter().requests()) {
    EXPECT_TRUE(request.lookahead.empty());
  }
}

TEST_F(DraftLookaheadTest, WhoCannotIsLeftAlone) {
  drafter().supports_lookahead = false;  // the fake complains of a lookahead
  EXPECT_EQ(RunRequest(), kRounds * (kPass + kDraft));
}

TEST_F(DraftLookaheadTest, WhoSharesTheVerifiersCoresIsLeftAlone) {
  cluster_.info->cpu_group = drafter().cpu_group = 4711;
  EXPECT_EQ(RunRequest(), kRounds * (kPass + kDraft));
  drafter().cpu_group = 4712;
  EXPECT_LT(RunRequest(), kRounds * (kPass + kDraft));
}

TEST_F(DraftLookaheadTest, ALateAnswerIsForNobody) {
  int calls = 0;
  drafter().Behave([&calls] {
    // The calls of the first two rounds; then lookaheads that take longer than
    // their pass.
    const bool slow = ++calls > 3 && calls % 2 == 0;
    return FakeDraftEndpoint::Behaviour{.delay = slow ? 3 * kPass : kDraft};
  });
  RunRequest();
  EXPECT_GT(Count("wasted"), 0);
}

TEST_F(DraftLookaheadTest, WhoIsSwitchedOffIsOffInTheNextRound) {
  GenerationRequest request = ToyCluster::Request(kTokens);
  request.speculation.max_depth = kDepth;
  Seen seen;
  cluster_.Start(request, &seen);
  // During the fourth pass: a tree for the fifth round is there.
  cluster_.executor.AdvanceBy(3 * kPass + 2 * kDraft + kPass * 0.9);
  const size_t passes = cluster_.verifier.requests().size();
  EXPECT_EQ(passes, 4u);
  cluster_.coordinator->SetSettings(
      {.drafter = "d0", .role = DrafterRole::kOff},
      [](absl::StatusOr<DrafterSettings> settings) {
        EXPECT_TRUE(settings.ok());
      });
  cluster_.executor.AdvanceBy(absl::Hours(1));
  EXPECT_EQ(seen.tokens, cluster_.PlainText(request));
  for (size_t i = 0; i < cluster_.verifier.requests().size(); ++i) {
    EXPECT_EQ(cluster_.verifier.requests()[i].tree.num_nodes() > 1, i < passes);
  }
}

class NoDraftLookaheadTest : public DraftLookaheadTest {
 protected:
  NoDraftLookaheadTest() : DraftLookaheadTest({.draft_ahead = false}) {}
};

TEST_F(NoDraftLookaheadTest, TheOperatorMaySwitchItOff) {
  EXPECT_EQ(RunRequest(), kRounds * (kPass + kDraft));
}

}  // namespace
}  // namespace espalier::coordinator
