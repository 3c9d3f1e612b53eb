#include "coordinator/control/speculation_control.h"

#include <cmath>
#include <memory>
#include <vector>

#include "gtest/gtest.h"

namespace espalier::coordinator {
namespace {

const PassCosts kUnknown;

TEST(SpeculationControlTest, ThePaceBeginsBehindThePromptsPass) {
  SpeculationRecord record(/*num_peers=*/1);
  SpeculationControl control(&record, /*greedy=*/true, {0}, &kUnknown);
  const std::vector<DrafterReturn> returns(1);
  control.Learn(
      {.returns = returns, .num_tokens = 1, .duration = absl::Seconds(1)});
  EXPECT_EQ(control.row_cost().tokens_per_second, 0);
  control.Learn({.returns = returns,
                 .num_tokens = 3,
                 .duration = absl::Milliseconds(30)});
  EXPECT_NEAR(control.row_cost().tokens_per_second, 100, 1e-9);
}

// Returns one that was asked and answered.
DrafterReturn Answer(double gain, absl::Duration takes) {
  return {.attention = DraftCall::Attention::kAwaited,
          .accepted = gain > 0 ? 1 : 0,
          .waited = takes,
          .compute = takes,
          .gain = {.alone = gain, .beside = gain},
          .cpu_group = 1,
          .shares_verifier_cores = true};
}

// Rounds of one session; a round of plain decoding takes 10 ms.
class SessionTest : public testing::Test {
 protected:
  static constexpr absl::Duration kRound = absl::Milliseconds(10);

  SessionTest() { control_.Learn({.returns = none_}); }

  // Runs rounds until one that does not rest, with these answers of those that
  // are asked. Returns how many rested before it.
  int RunOne(const std::vector<DrafterReturn>& answers, int64_t tokens,
             absl::Duration more) {
    for (int rested = 0; rested < 1000; ++rested) {
      if (control_.Rests(/*length=*/60)) {
        control_.Learn({.num_tokens = 1, .duration = kRound});
        continue;
      }
      std::vector<DraftCall> calls = control_.FirstCalls();
      const auto further = control_.FurtherCalls(TokenTree::RootOnly(0));
      std::vector<DrafterReturn> returns(calls.size());
      for (size_t i = 0; i < calls.size(); ++i) {
        if (calls[i].attention != DraftCall::Attention::kNone ||
            further[i].attention != DraftCall::Attention::kNone) {
          returns[i] = answers[i];
        }
      }
      won_ += control_.Learn({.returns = returns,
                              .num_tokens = tokens,
                              .duration = kRound + more});
      return rested;
    }
    return 1000;
  }

  SpeculationRecord record_{/*num_peers=*/1};
  SpeculationControl control_{&record_, /*greedy=*/true, {0}, &kUnknown};
  const std::vector<DrafterReturn> none_{DrafterReturn()};
  absl::Duration won_;
};

// First rounds of plain decoding tell what time is worth.
TEST_F(SessionTest, BeginsWithPlainDecoding) {
  const int rested =
      RunOne({Answer(2, absl::Milliseconds(2))}, 3, absl::Milliseconds(2));
  EXPECT_EQ(rested, 4);
  EXPECT_EQ(control_.PlainRound(), kRound);
}

TEST_F(SessionTest, TellsWhatEachRoundWon) {
  for (int i = 0; i < 10; ++i) {
    RunOne({Answer(2, absl::Milliseconds(2))}, 3, absl::Milliseconds(2));
  }
  EXPECT_NEAR(absl::ToDoubleMilliseconds(won_), 10 * (30 - 12), 1e-6);
}

// Its trees looked good, and were never right.
TEST_F(SessionTest, AnAnswerThatIsBehindDecodesPlainly) {
  const auto run = [this] {
    return RunOne({Answer(2, absl::Milliseconds(2))}, 1, absl::Milliseconds(2));
  };
  run();
  int rounds = 1, rested = 0;
  for (; rested < 10 && rounds < 100; ++rounds) rested = run();
  // 0.2 tokens are lost in each round; 2 and a percent are allowed, and 0.2
  // that the first draft took to catch up are owed longer.
  EXPECT_NEAR(rounds, 13, 1);
  EXPECT_NEAR(won_ / kRound, -2.2, 0.3);
}

// Decoding plainly by the verifier's table would take a third of the time.
TEST(SpeculationControlTest, TimeIsWorthWhatPlainRoundsWereMeasuredToTake) {
  const PassCosts costs = {{.rows = 1, .time = absl::Milliseconds(3)},
                           {.rows = 11, .time = absl::Milliseconds(8)}};
  SpeculationRecord record(/*num_peers=*/1);
  SpeculationControl control(&record, /*greedy=*/true, {0}, &costs);
  control.Learn({});
  EXPECT_EQ(control.PlainRound(), absl::Milliseconds(3));
  for (int i = 0; i < 8; ++i) {
    control.Learn({.num_tokens = 1, .duration = absl::Milliseconds(9)});
  }
  EXPECT_EQ(control.PlainRound(), absl::Milliseconds(9));
  EXPECT_NEAR(control.row_cost().tokens_per_second, 1e3 / 9, 1e-6);
  // What one session measured, the next one knows; a row of the other one takes
  // half a millisecond.
  EXPECT_EQ(SpeculationControl(&record, true, {0}, &costs).PlainRound(),
            absl::Milliseconds(9.5));
}

// The verifier's table is wrong about 2 rows: that is no time of the drafter's,
// which would be remembered after the table was corrected.
TEST(SpeculationControlTest, APassThatTookLongerThanExpectedIsNotTheDrafters) {
  const PassCosts costs = {{.rows = 1, .time = absl::Milliseconds(8)},
                           {.rows = 2, .time = absl::Milliseconds(8)}};
  SpeculationRecord record(/*num_peers=*/1);
  SpeculationControl control(&record, /*greedy=*/true, {0}, &costs);
  control.Learn({});
  for (int i = 0; i < 8; ++i) {
    control.Learn({.num_tokens = 1,
                   .duration = absl::Milliseconds(9),
                   .pass = absl::Milliseconds(8)});
  }
  const std::vector<DrafterReturn> returns = {Answer(1, absl::Milliseconds(2))};
  for (int i = 0; i < 8; ++i) {
    control.Rests(/*length=*/60);
    control.Learn({.returns = returns,
                   .num_tokens = 2,
                   .duration = absl::Milliseconds(17),
                   .draft_wait = absl::Milliseconds(2),
                   .pass = absl::Milliseconds(14),
                   .num_nodes = 1});
  }
  EXPECT_NEAR(record.kind(true).values[0].other_seconds.mean(), 0, 1e-9);
}

// In the first round the prompt's features come; the others are learned from.
TEST(SpeculationControlTest, ExploringAsksAll) {
  SpeculationRecord record(/*num_peers=*/2);
  SpeculationControl control(&record, /*greedy=*/true, {0, 1}, &kUnknown,
                             /*explores=*/true);
  EXPECT_FALSE(control.Rests(/*length=*/60));
  const TokenTree root = TokenTree::RootOnly(0);
  EXPECT_EQ(control.FurtherCalls(root)[0].attention,
            DraftCall::Attention::kNone);
  control.Learn({});
  EXPECT_FALSE(control.Rests(/*length=*/60));
  for (const DraftCall& call : control.FurtherCalls(root)) {
    EXPECT_EQ(call.attention, DraftCall::Attention::kAwaited);
  }
}

TEST(SpeculationControlTest, ExploringWithoutDraftersMeasuresPlainDecoding) {
  SpeculationRecord record(/*num_peers=*/2);
  SpeculationControl control(&record, /*greedy=*/true, {}, &kUnknown,
                             /*explores=*/true);
  control.Learn({});
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(control.Rests(/*length=*/60));
    control.Learn({.num_tokens = 1, .duration = absl::Milliseconds(10)});
  }
  EXPECT_EQ(record.kind(/*greedy=*/true).plain.Seconds(0), 0.010);
  EXPECT_FALSE(record.kind(/*greedy=*/true).plain.IsStale(0));
}

void CutChain(SpeculationControl& control, int num_nodes) {
  TokenTree tree = TokenTree::RootOnly(0);
  for (int i = 0; i < num_nodes; ++i) tree.Add(i, 1, -0.01f * (i + 1));
  control.Cut(tree);
}

// One round with few paying nodes does not shrink the next one.
TEST(SpeculationControlTest, DraftsWhatRoundsUsuallyPayFor) {
  SpeculationRecord record(/*num_peers=*/1);
  SpeculationControl control(&record, /*greedy=*/true, {0}, &kUnknown);
  for (int i = 0; i < 50; ++i) CutChain(control, 20);
  EXPECT_EQ(control.NodesToDraft(64), 30);
  EXPECT_EQ(control.FurtherNodes(64), 25);
  CutChain(control, 0);
  EXPECT_GE(control.NodesToDraft(64), 28);
  EXPECT_EQ(control.NodesToDraft(10), 10);
  for (int i = 0; i < 200; ++i) CutChain(control, 0);
  EXPECT_EQ(control.NodesToDraft(64), 8);
  EXPECT_EQ(control.FurtherNodes(64), 4);
}

// The last session of the same kind: other trees pay in sampled text than in
// greedy text.
TEST(SpeculationControlTest, BeginsToDraftWhatTheLastSessionPaidFor) {
  SpeculationRecord record(/*num_peers=*/1);
  const auto nodes_at_first = [&record](bool greedy) {
    return SpeculationControl(&record, greedy, {0}, &kUnknown).NodesToDraft(64);
  };
  EXPECT_EQ(nodes_at_first(true), 24) << "half as many again as are usual";
  {
    SpeculationControl control(&record, /*greedy=*/true, {0}, &kUnknown);
    TokenTree tree = TokenTree::RootOnly(0);
    for (int node = 0; node < 6; ++node) tree.Add(node, 1, -0.01f);
    for (int i = 0; i < 500; ++i) control.Cut(tree);
  }
  EXPECT_NEAR(static_cast<double>(nodes_at_first(true)), 9.5, 0.5);
  EXPECT_EQ(nodes_at_first(false), 24);
  // 16 own rounds count as much: 6 and 20 make 13.
  SpeculationControl control(&record, /*greedy=*/true, {0}, &kUnknown);
  for (int i = 0; i < 16; ++i) CutChain(control, 20);
  EXPECT_NEAR(static_cast<double>(control.NodesToDraft(64)), 19.5, 1);
}

class SharedPassesTest : public ::testing::Test {
 protected:
  // Nodes that are kept of one with this probability, beside other sessions.
  static int64_t NodesKept(const PassCosts& costs, double chance,
                           int num_others) {
    SpeculationRecord record(/*num_peers=*/1);
    std::vector<std::unique_ptr<SpeculationControl>> others;
    for (int i = 0; i < num_others; ++i) {
      others.push_back(std::make_unique<SpeculationControl>(
          &record, /*greedy=*/true, std::vector<int>{0}, &costs));
    }
    SpeculationControl control(&record, /*greedy=*/true, {0}, &costs);
    TokenTree tree = TokenTree::RootOnly(0);
    tree.Add(0, 1, static_cast<float>(std::log(chance)));
    control.Cut(tree);
    return tree.num_nodes() - 1;
  }
};

// A row costs half a token of one session, and two thirds of one of two, as
// their pass takes 15 ms.
TEST_F(SharedPassesTest, ARowCostsTheTokensOfAllSessions) {
  const PassCosts costs = {{.rows = 1, .time = absl::Milliseconds(10)},
                           {.rows = 11, .time = absl::Milliseconds(60)}};
  EXPECT_EQ(NodesKept(costs, 0.6, /*num_others=*/0), 1);
  EXPECT_EQ(NodesKept(costs, 0.6, /*num_others=*/1), 0);
}

TEST_F(SharedPassesTest, OthersTakeTheRowsThatAreFree) {
  const PassCosts costs = {{.rows = 1, .time = absl::Milliseconds(10)},
                           {.rows = 2, .time = absl::Milliseconds(10)},
                           {.rows = 3, .time = absl::Milliseconds(30)}};
  EXPECT_EQ(NodesKept(costs, 0.9, /*num_others=*/0), 1);
  EXPECT_EQ(NodesKept(costs, 0.9, /*num_others=*/1), 0);
}

TEST(SpeculationControlTest, SessionsCountWhileTheyRun) {
  SpeculationRecord record(/*num_peers=*/1);
  {
    const SpeculationControl one(&record, /*greedy=*/true, {0}, &kUnknown);
    const SpeculationControl other(&record, /*greedy=*/false, {0}, &kUnknown);
    EXPECT_EQ(record.num_running, 2);
  }
  EXPECT_EQ(record.num_running, 0);
}

// A round that says nothing of a drafter leaves what others learned.
TEST(SpeculationControlTest, RoundsThatSayNothingTeachNobody) {
  SpeculationRecord record(/*num_peers=*/1);
  SpeculationControl control(&record, /*greedy=*/true, {0}, &kUnknown);
  for (int i = 0; i < 20; ++i) record.kind(true).values[0].alone.Observe(7);
  control.Learn({});
  control.Learn({.num_tokens = 1, .duration = absl::Milliseconds(10)});
  EXPECT_EQ(record.kind(true).values[0].alone.mean(), 7);
  EXPECT_LT(record.kind(true).values[0].alone.weight(), 20) << "it fades";
}

// Plain decoding is a lower bound of a session's throughput.
TEST(SpeculationControlTest, TimeIsWorthWhatPlainDecodingWouldEmitInIt) {
  SpeculationRecord record(/*num_peers=*/1);
  const PassCosts costs = {{.rows = 1, .time = absl::Milliseconds(10)},
                           {.rows = 11, .time = absl::Milliseconds(60)}};
  SpeculationControl control(&record, /*greedy=*/true, {0}, &costs);
  // A row costs half a token.
  TokenTree tree = TokenTree::RootOnly(0);
  tree.Add(0, 1, std::log(0.7f));
  tree.Add(1, 2, std::log(0.4f));
  EXPECT_NEAR(control.Gain(tree), 0.2, 1e-6);
  EXPECT_NEAR(control.GainIn({1, 2, 3}, tree), 0.5, 1e-6);
  EXPECT_NEAR(control.GainIn({3}, tree), -0.5, 1e-6);
  EXPECT_NEAR(control.GainIn({}, tree), -0.5, 1e-6);
  control.Cut(tree);
  EXPECT_EQ(tree.num_nodes(), 2);
}

}  // namespace
}  // namespace espalier::coordinator
