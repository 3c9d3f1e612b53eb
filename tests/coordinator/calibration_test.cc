#include "coordinator/calibration.h"

#include <cmath>
#include <random>
#include <vector>

#include "coordinator/merge_policies.h"
#include "gtest/gtest.h"

namespace espalier::coordinator {
namespace {

constexpr TokenId kRoot = 9;

TokenTree OneGuess(TokenId token, double chance) {
  TokenTree tree = TokenTree::RootOnly(kRoot);
  tree.Add(0, token, static_cast<float>(std::log(chance)));
  return tree;
}

// A round in which drafter i says trees[i]; null: nothing.
class Round {
 public:
  explicit Round(std::vector<TokenTree> trees) : trees_(std::move(trees)) {
    for (size_t i = 0; i < trees_.size(); ++i) {
      const int drafter = static_cast<int>(i);
      drafted_.push_back(
          {.drafter = drafter, .tree = &trees_[i], .peer = drafter});
    }
  }
  TokenTrie trie() const { return TokenTrie(kRoot, drafted_); }
  absl::Span<const DraftedTree> drafted() const { return drafted_; }

 private:
  std::vector<TokenTree> trees_;
  std::vector<DraftedTree> drafted_;
};

double ChanceOf(const SessionCalibration& calibration, const TokenTrie& trie,
                TokenId token) {
  return calibration.Chance(trie, trie.ChildOf(0, token), 0);
}

TEST(CalibrationTest, TakesDraftersAtTheirWordAtFirst) {
  const Round round({OneGuess(1, 0.75), OneGuess(1, 0.5)});
  Calibration shared;
  const SessionCalibration calibration(&shared);
  EXPECT_NEAR(ChanceOf(calibration, round.trie(), 1), 0.75, 1e-6);
}

TEST(CalibrationTest, LearnsWhatEachDraftersWordIsWorth) {
  std::mt19937_64 random(1);
  Calibration shared;
  SessionCalibration calibration(&shared);
  for (int i = 0; i < 2000; ++i) {
    // Drafter 0 boasts: it is right 3 times in 10. Drafter 1 is honest.
    const double u = std::uniform_real_distribution<>(0, 1)(random);
    const TokenId emitted = u < 0.3 ? 1 : u < 0.8 ? 2 : 3;
    calibration.Learn(Round({OneGuess(1, 0.9), OneGuess(2, 0.5)}).trie(),
                      {{emitted}});
  }
  const TokenTrie trie = Round({OneGuess(1, 0.9), OneGuess(2, 0.5)}).trie();
  EXPECT_NEAR(ChanceOf(calibration, trie, 1), 0.3, 0.08);
  EXPECT_NEAR(ChanceOf(calibration, trie, 2), 0.5, 0.08);
}

TEST(CalibrationTest, ASessionMayBeHarderThanTheOthers) {
  std::mt19937_64 random(3);
  const Round round({OneGuess(1, 0.7)});
  const TokenTrie trie = round.trie();
  const auto live = [&](SessionCalibration& session, double right, int rounds) {
    for (int i = 0; i < rounds; ++i) {
      const double u = std::uniform_real_distribution<>(0, 1)(random);
      session.Learn(trie, {{u < right ? 1 : 2}});
    }
  };
  Calibration shared;
  SessionCalibration easy(&shared), hard(&shared);
  live(easy, 0.7, 1000);
  EXPECT_NEAR(ChanceOf(hard, trie, 1), 0.7, 0.08);
  live(hard, 0.2, 40);
  EXPECT_LT(ChanceOf(hard, trie, 1), 0.5);
  EXPECT_GT(ChanceOf(easy, trie, 1), 0.6);
}

TEST(CalibrationTest, BoasterCannotCrowdOutAnHonestDrafter) {
  Calibration shared;
  SessionCalibration calibration(&shared);
  const auto budgeted = NewBudgetedMerge();
  const Round round({OneGuess(1, 0.9), OneGuess(2, 0.5)});
  const auto first_choice = [&] {
    return budgeted
        ->Merge({.root = kRoot,
                 .trees = round.drafted(),
                 .max_nodes = 1,
                 .calibration = &calibration})
        .tokens[1];
  };
  EXPECT_EQ(first_choice(), 1);
  for (int i = 0; i < 200; ++i) {
    const TokenId emitted = i % 2 == 0 ? 2 : 3;
    calibration.Learn(round.trie(), {{emitted}});
  }
  EXPECT_EQ(first_choice(), 2);
}

// Two drafters that agree in every other round. How often the token that they
// agree on comes true, and where they differ that of drafter 0 and of 1:
struct TwoMinds {
  double agreed;
  double first;
  double second;
};

class TwoMindsTest : public testing::Test {
 protected:
  void Learn(uint64_t seed, const TwoMinds& right) {
    std::mt19937_64 random(seed);
    for (int i = 0; i < 2000; ++i) {
      const double u = std::uniform_real_distribution<>(0, 1)(random);
      const double either = right.first + right.second;
      calibration_.Learn(agree_.trie(), {{u < right.agreed ? 1 : 3}});
      calibration_.Learn(differ_.trie(), {{u < right.first ? 1
                                           : u < either    ? 2
                                                           : 3}});
    }
  }

  const Round agree_{{OneGuess(1, 0.5), OneGuess(1, 0.5)}};
  const Round differ_{{OneGuess(1, 0.5), OneGuess(2, 0.5)}};
  Calibration shared_;
  SessionCalibration calibration_{&shared_};
};

TEST_F(TwoMindsTest, AgreementCountsForMore) {
  Learn(2, {.agreed = 0.8, .first = 0.3, .second = 0.3});
  EXPECT_NEAR(ChanceOf(calibration_, agree_.trie(), 1), 0.8, 0.1);
  EXPECT_NEAR(ChanceOf(calibration_, differ_.trie(), 1), 0.3, 0.1);
}

TEST_F(TwoMindsTest, WhoIsAloneWithATokenCounts) {
  // Both are right every other time; where they differ, drafter 0 is.
  Learn(4, {.agreed = 0.5, .first = 0.5, .second = 0.05});
  EXPECT_NEAR(ChanceOf(calibration_, differ_.trie(), 1), 0.5, 0.1);
  EXPECT_NEAR(ChanceOf(calibration_, differ_.trie(), 2), 0.05, 0.05);
}

TEST(CalibrationTest, ForgetsWhatIsLongPast) {
  Calibration shared;
  SessionCalibration calibration(&shared);
  const Round round({OneGuess(1, 0.5)});
  for (int i = 0; i < 3000; ++i) calibration.Learn(round.trie(), {{1}});
  EXPECT_GT(ChanceOf(calibration, round.trie(), 1), 0.9);
  for (int i = 0; i < 3000; ++i) calibration.Learn(round.trie(), {{2}});
  EXPECT_LT(ChanceOf(calibration, round.trie(), 1), 0.1);
}

}  // namespace
}  // namespace espalier::coordinator
