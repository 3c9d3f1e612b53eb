// Drafting for the next round while the verifier works on this one. On a clock
// that stands still while code runs, so that the times below are sums of the
// peers' delays.
#include "tests/coordinator/toy_cluster.h"

namespace espalier::coordinator {
namespace {

constexpr int64_t kTokens = 90;
constexpr int64_t kDepth = 8;
constexpr int64_t kRounds = kTokens / (kDepth + 1);
constexpr absl::Duration kPass = absl::Milliseconds(10);
constexpr absl::Duration kDraft = absl::Milliseconds(6);

class DraftAheadTest : public testing::Test {
 protected:
  explicit DraftAheadTest(Coordinator::Options options = {})
      : cluster_(1, std::move(options)) {
    cluster_.verifier.Behave({.delay = kPass});
    drafter().Behave({.delay = kDraft});
    drafter().drafts_ahead = true;
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
                      {.name = "espalier_draft_ahead_total",
                       .help = "Trees drafted for a round before it began",
                       .labels = {{"drafter", "d0"}, {"result", result}}})
        .Value();
  }

  ToyCluster cluster_;
};

// The first two rounds ask: how long a pass takes is not known before.
TEST_F(DraftAheadTest, ATrueGuessTakesTheDraftOutOfTheRound) {
  EXPECT_EQ(RunRequest(), kRounds * kPass + 2 * kDraft);
  EXPECT_EQ(Count("hit"), kRounds - 2);
}

TEST_F(DraftAheadTest, AFalseGuessCostsNothing) {
  drafter().Behave({.delay = kDraft, .corrupt = [this](Proposal& proposal) {
                      // Right up to one token before the end.
                      TokenId& last = proposal.tree.tokens.back();
                      last = (last + 1) % cluster_.target.vocab_size;
                    }});
  const absl::Duration time = RunRequest();
  EXPECT_EQ(Count("hit"), 0);
  EXPECT_GT(Count("miss"), kRounds / 2);
  drafter().drafts_ahead = false;
  EXPECT_EQ(time, RunRequest());
}

TEST_F(DraftAheadTest, WhoTakesLongerThanAPassIsLeftAlone) {
  drafter().Behave({.delay = kPass + absl::Milliseconds(1)});
  RunRequest();
  for (const ProposeRequest& request : drafter().requests()) {
    EXPECT_TRUE(request.guess.empty());
  }
}

TEST_F(DraftAheadTest, WhoCannotIsLeftAlone) {
  drafter().drafts_ahead = false;  // the fake complains of a guess
  EXPECT_EQ(RunRequest(), kRounds * (kPass + kDraft));
}

TEST_F(DraftAheadTest, WhoSharesTheVerifiersCoresIsLeftAlone) {
  cluster_.info->site = drafter().site = 4711;
  EXPECT_EQ(RunRequest(), kRounds * (kPass + kDraft));
  drafter().site = 4712;
  EXPECT_LT(RunRequest(), kRounds * (kPass + kDraft));
}

TEST_F(DraftAheadTest, ALateAnswerIsForNobody) {
  int calls = 0;
  drafter().Behave([&calls] {
    // Of the first two rounds; then guesses that take longer than their pass.
    const bool slow = ++calls > 3 && calls % 2 == 0;
    return FakeDraftEndpoint::Behaviour{.delay = slow ? 3 * kPass : kDraft};
  });
  RunRequest();
  EXPECT_GT(Count("wasted"), 0);
}

TEST_F(DraftAheadTest, WhoIsSwitchedOffIsOffInTheNextRound) {
  GenerationRequest request = ToyCluster::Request(kTokens);
  request.speculation.max_depth = kDepth;
  Seen seen;
  cluster_.Start(request, &seen);
  // Into the fourth pass: a tree for the fifth round is there.
  cluster_.executor.AdvanceBy(3 * kPass + 2 * kDraft + kPass * 0.9);
  const size_t passes = cluster_.verifier.requests().size();
  EXPECT_EQ(passes, 4u);
  cluster_.coordinator->SetDuty(
      {.drafter = "d0", .role = DrafterRole::kOff},
      [](absl::StatusOr<DrafterDuty> duty) { EXPECT_TRUE(duty.ok()); });
  cluster_.executor.AdvanceBy(absl::Hours(1));
  EXPECT_EQ(seen.tokens, cluster_.PlainText(request));
  for (size_t i = 0; i < cluster_.verifier.requests().size(); ++i) {
    EXPECT_EQ(cluster_.verifier.requests()[i].tree.num_nodes() > 1, i < passes);
  }
}

class NoDraftAheadTest : public DraftAheadTest {
 protected:
  NoDraftAheadTest() : DraftAheadTest({.draft_ahead = false}) {}
};

TEST_F(NoDraftAheadTest, TheOperatorMaySwitchItOff) {
  EXPECT_EQ(RunRequest(), kRounds * (kPass + kDraft));
}

}  // namespace
}  // namespace espalier::coordinator
