#include "coordinator/rounds/round_credit.h"

#include <cstdint>
#include <memory>
#include <vector>

#include "coordinator/control/speculation_record.h"
#include "coordinator/merge/calibration.h"
#include "coordinator/merge/merge_policies.h"
#include "coordinator/merge/token_trie.h"
#include "gtest/gtest.h"

namespace espalier::coordinator {
namespace {

constexpr TokenId kRoot = 9;
const PassCosts kCosts = {{1, absl::Milliseconds(10)},
                          {64, absl::Milliseconds(20)}};

// Merges as "budgeted" does, and counts.
class CountingMerge final : public MergePolicy {
 public:
  TokenTree Merge(const MergeInput& input) const override {
    ++num_merges_;
    return policy_->Merge(input);
  }
  int num_merges() const { return num_merges_; }

 private:
  const std::unique_ptr<MergePolicy> policy_ = NewBudgetedMerge();
  mutable int num_merges_ = 0;
};

class RoundCreditTest : public testing::Test {
 protected:
  // Drafter i proposes i + 1 first, then 7 and 8.
  void Draft(int num_drafters) {
    for (int i = 0; i < num_drafters; ++i) {
      TokenTree& tree = trees_.emplace_back(TokenTree::RootOnly(kRoot));
      tree.Add(0, static_cast<TokenId>(i + 1), -0.2f);
      tree.Add(1, 7, -0.4f);
      tree.Add(0, 8, -1.5f);
    }
    for (int i = 0; i < num_drafters; ++i) {
      drafted_.push_back({.drafter = i, .tree = &trees_[i], .peer = i});
    }
  }

  MergeInput Input(absl::Span<const DraftedTree> trees) const {
    return {.root = kRoot,
            .trees = trees,
            .max_nodes = 16,
            .calibration = &calibration_};
  }
  RoundCredit::Round Round() const {
    return {.policy = policy_,
            .control = control_,
            .input = Input(drafted_),
            .emitted = emitted_};
  }
  double GainIn(absl::Span<const DraftedTree> trees) const {
    return control_.GainIn(emitted_, NewBudgetedMerge()->Merge(Input(trees)));
  }

  CountingMerge policy_;
  Calibration shared_;
  SessionCalibration calibration_{&shared_};
  SpeculationRecord record_{/*num_peers=*/4};
  SpeculationControl control_{&record_, /*greedy=*/true, {0, 1, 2, 3}, &kCosts};
  std::vector<TokenTree> trees_;
  std::vector<DraftedTree> drafted_;
  const std::vector<TokenId> emitted_ = {2, 7, 5};  // as drafter 1 said
};

TEST_F(RoundCreditTest, IsWhatIsMissingWithoutTheTree) {
  Draft(4);
  RoundCredit credit(Round());
  for (size_t i = 0; i < drafted_.size(); ++i) {
    std::vector<DraftedTree> others = drafted_;
    others.erase(others.begin() + static_cast<int64_t>(i));
    const TreeGain gain = credit.Of(i);
    EXPECT_EQ(gain.beside, GainIn(drafted_) - GainIn(others)) << i;
    EXPECT_EQ(
        gain.alone,
        control_.Gain(NewBudgetedMerge()->Merge(Input({&drafted_[i], 1}))))
        << i;
  }
  EXPECT_GT(credit.Of(1).beside, 1);
  EXPECT_LT(credit.Of(0).beside, credit.Of(1).beside);
}

TEST_F(RoundCreditTest, MergesEachSetOfTreesOnce) {
  const int num_merges[] = {1, 3, 7, 9};  // by number of drafters, from 1
  for (int n = 1; n <= 4; ++n) {
    trees_.clear();
    trees_.reserve(n);
    drafted_.clear();
    Draft(n);
    const int before = policy_.num_merges();
    RoundCredit credit(Round());
    for (int again = 0; again < 2; ++again) {
      for (size_t i = 0; i < drafted_.size(); ++i) credit.Of(i);
    }
    EXPECT_EQ(policy_.num_merges() - before, num_merges[n - 1]) << n;
  }
}

TEST_F(RoundCreditTest, TheOnlyTreeIsWorthTheSameAloneAndBeside) {
  Draft(1);
  const TreeGain gain = RoundCredit(Round()).Of(0);
  EXPECT_EQ(gain.alone,
            control_.Gain(NewBudgetedMerge()->Merge(Input(drafted_))));
  EXPECT_EQ(gain.beside, gain.alone);
}

// The chances of drafters that have long been wrong say nothing any more.
TEST_F(RoundCreditTest, OneThatWasLongWrongIsWorthTheTokenThatItPredicts) {
  Draft(2);
  for (int i = 0; i < 500; ++i) {
    calibration_.Learn(TokenTrie(kRoot, drafted_), {{5}});
  }
  for (size_t i = 0; i < drafted_.size(); ++i) {
    const TokenTree merged =
        NewBudgetedMerge()->Merge(Input({&drafted_[i], 1}));
    ASSERT_LT(control_.Gain(merged), 0.1);
  }
  RoundCredit credit(Round());
  EXPECT_EQ(credit.Of(0).alone, control_.GainOfANode(false));
  EXPECT_EQ(credit.Of(1).alone, control_.GainOfANode(true));
  EXPECT_LT(credit.Of(0).alone, 0) << "a row that brought nothing";
  EXPECT_GT(credit.Of(1).alone, 0.5);
  EXPECT_EQ(RoundCredit(Round()).OfLate(drafted_[1]).alone,
            control_.GainOfANode(true));
}

TEST_F(RoundCreditTest, ALateTreeIsWorthWhatItWouldHaveAdded) {
  Draft(3);
  const DraftedTree late = drafted_.back();
  drafted_.pop_back();
  const TokenTree merged = NewBudgetedMerge()->Merge(Input(drafted_));
  std::vector<DraftedTree> with = drafted_;
  with.push_back(late);
  EXPECT_EQ(RoundCredit(Round()).OfLate(late).beside,
            control_.Gain(NewBudgetedMerge()->Merge(Input(with))) -
                control_.Gain(merged));
}

}  // namespace
}  // namespace espalier::coordinator
