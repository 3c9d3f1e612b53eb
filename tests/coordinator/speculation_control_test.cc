#include "coordinator/speculation_control.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"

namespace espalier::coordinator {
namespace {

TEST(SpeculationControlTest, ThePaceBeginsBehindThePromptsPass) {
  SpeculationRecord record(/*num_peers=*/1);
  SpeculationControl control(&record, /*greedy=*/true, {0});
  const std::vector<DrafterReturn> returns(1);
  control.Learn(
      {.returns = returns, .num_tokens = 1, .duration = absl::Seconds(1)});
  EXPECT_EQ(record.kind(true).pace.tokens_per_second(), 0);
  control.Learn({.returns = returns,
                 .num_tokens = 3,
                 .duration = absl::Milliseconds(30)});
  EXPECT_NEAR(record.kind(true).pace.tokens_per_second(), 100, 1e-9);
  EXPECT_EQ(record.kind(false).pace.tokens_per_second(), 0);
}

// That of the slow drafter: 2 tokens for a token's time.
TEST(SpeculationControlTest, AsksSlowDraftersForWhatQuickOnesLeave) {
  SpeculationRecord record(/*num_peers=*/2);
  SpeculationControl control(&record, /*greedy=*/true, {0, 1});
  const std::vector<DrafterReturn> returns = {
      {.attention = DraftCall::Attention::kAwaited,
       .accepted = 0,
       .waited = absl::Microseconds(1)},
      {.attention = DraftCall::Attention::kAwaited,
       .accepted = 2,
       .waited = absl::Milliseconds(10)}};
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

// One round of which little pays does not make the next one small.
TEST(SpeculationControlTest, DraftsWhatRoundsUsuallyPayFor) {
  SpeculationRecord record(/*num_peers=*/1);
  SpeculationControl control(&record, /*greedy=*/true, {0});
  const auto cut = [&control](int num_nodes) {
    TokenTree tree = TokenTree::RootOnly(0);
    for (int i = 0; i < num_nodes; ++i) tree.Add(i, 1, -0.01f * (i + 1));
    control.Cut(/*costs=*/{}, tree);
  };
  for (int i = 0; i < 50; ++i) cut(20);
  EXPECT_EQ(control.NodesToDraft(64), 30);
  cut(0);
  EXPECT_GE(control.NodesToDraft(64), 28);
  EXPECT_EQ(control.NodesToDraft(10), 10);
  for (int i = 0; i < 100; ++i) cut(0);
  EXPECT_EQ(control.NodesToDraft(64), 8);
}

}  // namespace
}  // namespace espalier::coordinator
