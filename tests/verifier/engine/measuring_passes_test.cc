#include "verifier/engine/measuring_passes.h"

#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "prometheus/registry.h"
#include "tests/testing/fake_executor.h"
#include "tests/testing/scripted_language_model.h"
#include "verifier/rules/verification_rules.h"

namespace espalier::verifier {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A row takes a millisecond, which the model's passes move the clock by.
class MeasuringPassesTest : public ::testing::Test {
 protected:
  MeasuringPassesTest() {
    Registry<VerificationRule> registry("rule");
    RegisterVerificationRules(registry);
    rule_ = *registry.Create(kDefaultRule);
    model_.set_pass_hook([this](absl::Span<const SequenceRows> batch) {
      if (!failure_.ok()) return failure_;
      measured_.push_back(std::ssize(batch[0].tokens));
      unlike_ =
          std::set<TokenId>(batch[0].tokens.begin(), batch[0].tokens.end())
              .size();
      executor_.MoveClock(measured_.back() * absl::Milliseconds(1));
      return absl::OkStatus();
    });
    measuring_.emplace(
        MeasuringPasses::Parts{model_, pass_, executor_, *rule_, metrics_},
        CostUpkeep(costs_, 8), TreeRouting({{1, 2}, {8, 16}}),
        [this](const absl::Status& status) { lost_ = status; });
  }

  absl::Status failure_;
  std::vector<int64_t> measured_;  // rows of passes
  size_t unlike_ = 0;              // rows of the last one
  absl::Status lost_;
  const PassCosts costs_ = {{1, absl::Milliseconds(5)},
                            {8, absl::Milliseconds(6)}};
  FakeExecutor executor_;
  prometheus::Registry registry_;
  ScriptedLanguageModel model_{{}};
  VerifierMetrics metrics_{registry_, "target", costs_};
  TargetPass pass_{model_, executor_};
  std::unique_ptr<VerificationRule> rule_;
  std::optional<MeasuringPasses> measuring_;
};

TEST_F(MeasuringPassesTest, MeasuresAtRestUntilTheTableIsCertain) {
  measuring_->OnRequest();
  executor_.AdvanceBy(absl::Milliseconds(99));
  EXPECT_THAT(measured_, IsEmpty());
  executor_.AdvanceBy(absl::Seconds(60));
  EXPECT_THAT(measured_, ::testing::Contains(8));
  EXPECT_EQ(executor_.num_pending(), 0);
  EXPECT_GT(measuring_->costs()[1].time, absl::Milliseconds(7));
  EXPECT_EQ(measuring_->published(), measuring_->costs());
  EXPECT_EQ(model_.num_sequences(), 0);
}

TEST_F(MeasuringPassesTest, ARequestPutsItOff) {
  measuring_->OnRequest();
  executor_.AdvanceBy(absl::Milliseconds(60));
  measuring_->OnRequest();
  executor_.AdvanceBy(absl::Milliseconds(60));
  EXPECT_THAT(measured_, IsEmpty());
}

TEST_F(MeasuringPassesTest, AfterStopItMeasuresNoMore) {
  measuring_->OnRequest();
  measuring_->Stop();
  executor_.AdvanceBy(absl::Seconds(60));
  EXPECT_THAT(measured_, IsEmpty());
}

TEST_F(MeasuringPassesTest, ALostDeviceIsReported) {
  failure_ = absl::UnavailableError("gone");
  measuring_->OnRequest();
  executor_.AdvanceBy(absl::Seconds(1));
  EXPECT_TRUE(absl::IsUnavailable(lost_));
}

TEST_F(MeasuringPassesTest, AFullPoolIsNoLoss) {
  failure_ = absl::ResourceExhaustedError("full");
  measuring_->OnRequest();
  executor_.AdvanceBy(absl::Seconds(1));
  EXPECT_TRUE(lost_.ok());
}

TEST_F(MeasuringPassesTest, MeasuresBeforePassesOfTreesAlone) {
  const TokenTree tree = TokenTree::RootOnly(1);
  const std::vector<TokenId> prompt = {1, 2};
  const std::vector<TargetPass::Part> trees = {{.tree = &tree}};
  const std::vector<TargetPass::Part> prompts = {
      {.prompt = prompt, .tree = &tree}};
  // A pass of sessions earns the time.
  TargetPass::Output output = {.parts = trees, .uses = {DrawRequest{}}};
  output.begin = executor_.Now();
  output.end = output.begin + absl::Seconds(1);
  measuring_->Observe(output);
  EXPECT_EQ(*measuring_->Before(prompts), absl::ZeroDuration());
  EXPECT_THAT(measured_, IsEmpty());
  const absl::Time begin = executor_.Now();
  const absl::Duration spent = *measuring_->Before(trees);
  EXPECT_THAT(measured_, ::testing::Not(IsEmpty()));
  EXPECT_EQ(spent, executor_.Now() - begin);
}

// A tree whose rows are routed alike is no reason to measure unlike rows.
TEST_F(MeasuringPassesTest, RowsAreAsUnlikeAsThoseOfTrees) {
  TokenTree tree = TokenTree::RootOnly(1);
  for (int i = 0; i < 7; ++i) tree.Add(0, i, -1);
  TargetPass::Output output = {.parts = {{.tree = &tree}},
                               .uses = {DrawRequest{}}};
  output.end = output.begin + absl::Seconds(1);
  output.experts = 2;
  measuring_->Observe(output);
  measuring_->OnRequest();
  executor_.AdvanceBy(absl::Milliseconds(101));
  ASSERT_THAT(measured_, ::testing::Not(IsEmpty()));
  EXPECT_EQ(unlike_, 1);
}

}  // namespace
}  // namespace espalier::verifier
