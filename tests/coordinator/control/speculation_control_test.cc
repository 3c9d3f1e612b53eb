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
  EXPECT_EQ(record.kind(true).throughput.tokens_per_second(), 0);
  control.Learn({.returns = returns,
                 .num_tokens = 3,
                 .duration = absl::Milliseconds(30)});
  EXPECT_NEAR(record.kind(true).throughput.tokens_per_second(), 100, 1e-9);
  EXPECT_EQ(record.kind(false).throughput.tokens_per_second(), 0);
}

// The slow drafter: 2 tokens in the time of one token.
TEST(SpeculationControlTest, AsksSlowDraftersForWhatQuickOnesLeave) {
  SpeculationRecord record(/*num_peers=*/2);
  SpeculationControl control(&record, /*greedy=*/true, {0, 1}, &kUnknown);
  const std::vector<DrafterReturn> returns = {
      {.attention = DraftCall::Attention::kAwaited,
       .accepted = 0,
       .waited = absl::Microseconds(1)},
      {.attention = DraftCall::Attention::kAwaited,
       .accepted = 2,
       .waited = absl::Milliseconds(10),
       .gain = {.alone = 2, .beside = 2}}};
  for (int i = 0; i < 50; ++i) {
    control.Learn({.returns = returns,
                   .num_tokens = 3,
                   .duration = absl::Milliseconds(30)});
  }
  const auto quick = control.QuickCalls();
  EXPECT_EQ(quick[0].attention, DraftCall::Attention::kAwaited);
  EXPECT_EQ(quick[1].attention, DraftCall::Attention::kNone);
  const auto further = [&control](double chance) {
    TokenTree at_hand = TokenTree::RootOnly(0);
    at_hand.Add(0, 1, static_cast<float>(std::log(chance)));
    return control.FurtherCalls(at_hand)[1].attention;
  };
  EXPECT_EQ(further(0.4), DraftCall::Attention::kAwaited);
  EXPECT_EQ(further(0.6), DraftCall::Attention::kNone);
}

// One round with few paying nodes does not shrink the next one.
TEST(SpeculationControlTest, DraftsWhatRoundsUsuallyPayFor) {
  SpeculationRecord record(/*num_peers=*/1);
  SpeculationControl control(&record, /*greedy=*/true, {0}, &kUnknown);
  const auto cut = [&control](int num_nodes) {
    TokenTree tree = TokenTree::RootOnly(0);
    for (int i = 0; i < num_nodes; ++i) tree.Add(i, 1, -0.01f * (i + 1));
    control.Cut(tree);
  };
  for (int i = 0; i < 50; ++i) cut(20);
  EXPECT_EQ(control.NodesToDraft(64), 30);
  EXPECT_EQ(control.FurtherNodes(64), 25);
  cut(0);
  EXPECT_GE(control.NodesToDraft(64), 28);
  EXPECT_EQ(control.NodesToDraft(10), 10);
  for (int i = 0; i < 200; ++i) cut(0);
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
}

// Its nodes would cost, too.
TEST(SpeculationControlTest, WaitsForAQuickDrafterOnceItWouldPay) {
  SpeculationRecord record(/*num_peers=*/1);
  SpeculationControl control(&record, /*greedy=*/true, {0}, &kUnknown);
  const TokenTree late = TokenTree::RootOnly(0);
  int asked = 0;
  const auto run_round = [&](double gain) {
    DrafterReturn r = {.attention = control.QuickCalls()[0].attention};
    if (r.attention == DraftCall::Attention::kAwaited) {
      r.waited = absl::Microseconds(400);
    } else if (r.attention == DraftCall::Attention::kAsked) {
      ++asked;
      r.late = &late;
    }
    if (r.attention != DraftCall::Attention::kNone) r.gain = {gain, gain};
    control.Learn({.returns = {&r, 1},
                   .num_tokens = 1,
                   .duration = absl::Milliseconds(10)});
    return r.attention;
  };
  for (int i = 0; i < 100; ++i) run_round(/*gain=*/-0.5);
  for (int i = 0; i < 100; ++i) {
    EXPECT_NE(run_round(-0.5), DraftCall::Attention::kAwaited) << i;
  }
  EXPECT_GT(asked, 0);
  asked = 0;
  for (int i = 0; i < 100 && asked == 0; ++i) run_round(/*gain=*/20);
  EXPECT_EQ(run_round(20), DraftCall::Attention::kAwaited);
}

// A probe is asked for and not waited for.
TEST(SpeculationControlTest, ProbesWhereNothingPays) {
  SpeculationRecord record(/*num_peers=*/1);
  const PassCosts costs = {{.rows = 1, .time = absl::Milliseconds(10)},
                           {.rows = 2, .time = absl::Milliseconds(100)}};
  const TokenTree root = TokenTree::RootOnly(0);
  const std::vector<DrafterReturn> nothing(1);
  const std::vector<DrafterReturn> too_dear = {
      {.attention = DraftCall::Attention::kAwaited,
       .accepted = 0,
       .waited = absl::Milliseconds(5),
       .gain = {.alone = -8, .beside = -8}}};
  const std::vector<DrafterReturn> probed = {
      {.attention = DraftCall::Attention::kAsked,
       .late = &root,
       .gain = {.alone = -8, .beside = -8}}};
  int probes = 0;
  // Short sessions: the later ones know what the earlier ones learned.
  for (int session = 0; session < 50; ++session) {
    SpeculationControl control(&record, /*greedy=*/true, {0}, &costs);
    control.Learn({.returns = nothing});
    for (int i = 0; i < 20; ++i) {
      const auto quick = control.QuickCalls()[0].attention;
      const auto further = control.FurtherCalls(root)[0].attention;
      const bool is_probe = further == DraftCall::Attention::kAsked;
      const bool asked = quick == DraftCall::Attention::kAwaited ||
                         further == DraftCall::Attention::kAwaited;
      probes += is_probe ? 1 : 0;
      EXPECT_FALSE(asked && session > 0);
      TokenTree tree = root;
      for (int node = 0; node < 8; ++node) tree.Add(node, 1, -0.01f);
      control.Cut(tree);
      EXPECT_EQ(tree.num_nodes(), 1);
      control.Learn({.returns = asked      ? too_dear
                                : is_probe ? probed
                                           : nothing,
                     .num_tokens = 1,
                     .duration = absl::Milliseconds(10)});
    }
  }
  EXPECT_GE(probes, 28);
  EXPECT_LE(probes, 34);
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

class PassedOnTest : public ::testing::Test {
 protected:
  static DrafterValue ValueOf(double alone, double beside, double seconds) {
    DrafterValue value(128);
    value.alone.Restart(alone);
    value.beside.Restart(beside);
    value.seconds.Restart(seconds);
    return value;
  }
  // Rounds of one token in 10 ms, after the first one, which does not count.
  void Learn(SpeculationControl& control, int rounds,
             const std::vector<DrafterReturn>& returns) {
    for (int i = 0; i < rounds; ++i) {
      control.Learn({.returns = returns,
                     .num_tokens = 1,
                     .duration = absl::Milliseconds(10)});
    }
  }
  std::vector<DrafterValue>& values() { return record_.kind(true).values; }

  SpeculationRecord record_{/*num_peers=*/2};
};

TEST_F(PassedOnTest, RoundsThatSayNothingTeachNobody) {
  SpeculationControl control(&record_, /*greedy=*/true, {0, 1}, &kUnknown);
  values()[0] = ValueOf(7, 7, 0.005);  // by another session meanwhile
  Learn(control, 2, std::vector<DrafterReturn>(2));
  EXPECT_EQ(values()[0].alone.mean(), 7);
}

// The one that is taken instead was not asked in the round that decided it.
TEST_F(PassedOnTest, WhoIsAskedIsKnownToTheNextSession) {
  values()[0] = ValueOf(2, 2, 0.010);
  values()[1] = ValueOf(2, 0, 0.006);
  values()[1].asked = false;
  SpeculationControl control(&record_, /*greedy=*/true, {0, 1}, &kUnknown);
  const DrafterReturn slow = {.attention = DraftCall::Attention::kAwaited,
                              .accepted = 2,
                              .waited = absl::Milliseconds(10),
                              .compute = absl::Milliseconds(10),
                              .gain = {.alone = 2, .beside = 2},
                              .cpu_group = 1};
  Learn(control, 5, {slow, {.cpu_group = 1}});
  EXPECT_FALSE(values()[0].asked);
  EXPECT_TRUE(values()[1].asked);
}

// What many rounds of other sessions said counts as 16 rounds.
TEST_F(PassedOnTest, ASessionsOwnRoundsSoonOutweighThoseOfOthers) {
  for (int i = 0; i < 1000; ++i) values()[0].alone.Observe(2);
  SpeculationControl control(&record_, /*greedy=*/true, {0, 1}, &kUnknown);
  DrafterReturn late;
  const TokenTree tree = TokenTree::RootOnly(0);
  late.late = &tree;
  Learn(control, 1 + 16, {late, {}});
  EXPECT_NEAR(values()[0].alone.mean(), 1, 0.05);
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
