#include "coordinator/control/drafter_policy.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "gtest/gtest.h"

namespace espalier::coordinator {
namespace {

using Attention = DraftCall::Attention;

constexpr double kPrice = 100;  // tokens a second: a token takes 10 ms

// A drafter that always behaves the same.
struct Habit {
  double gain = 0;  // tokens
  absl::Duration takes;
  uint64_t cpu_group = 1;  // 0: cores of its own
  double adds = 0;         // tokens, to what a better one gains
  bool answers = true;
  int every = 1;  // only each so many-th call gains anything
};

class DrafterPolicyTest : public testing::Test {
 protected:
  void Make(std::vector<Habit> habits) {
    habits_ = std::move(habits);
    policy_.emplace(std::vector<DrafterValue>(habits_.size()), &budget_);
    asked_.assign(habits_.size(), 0);
  }

  // Rounds in which `nothing` is the chance that the first calls leave.
  void Run(int rounds, double nothing = 1) {
    for (int i = 0; i < rounds; ++i) RunOne(nothing);
  }

  // Does the same as Run, and returns which were asked how often.
  std::vector<int> Asked(int rounds, double nothing = 1) {
    std::fill(asked_.begin(), asked_.end(), 0);
    Run(rounds, nothing);
    return asked_;
  }

  std::vector<Habit> habits_;
  int64_t length_ = 0;  // of the text
  double others_ = 0;
  double other_seconds_ = 0;  // of a round with drafts
  double handling_ = 0;       // seconds
  TrialBudget budget_;
  std::optional<DrafterPolicy> policy_;

 private:
  void RunOne(double nothing) {
    policy_->BeginRound({.tokens_per_second = kPrice, .others = others_},
                        length_);
    length_ += 1;
    policy_->ConsiderTrial();
    if (policy_->Rests()) {
      policy_->Learn({}, {.tokens = 1});
      return;
    }
    std::vector<DraftCall> calls = policy_->FirstCalls();
    const std::vector<DraftCall> further = policy_->FurtherCalls(nothing);
    for (size_t i = 0; i < calls.size(); ++i) {
      if (calls[i].attention == Attention::kNone) calls[i] = further[i];
    }
    policy_->Learn(Answers(calls), {.tokens = 1 + others_,
                                    .handling = handling_,
                                    .other = other_seconds_});
  }

  std::vector<DrafterReturn> Answers(const std::vector<DraftCall>& calls) {
    std::vector<DrafterReturn> returns(calls.size());
    absl::Duration sum;
    for (size_t i = 0; i < calls.size(); ++i) {
      returns[i].attention = calls[i].attention;
      returns[i].cpu_group = habits_[i].cpu_group;
      returns[i].shares_verifier_cores = habits_[i].cpu_group != 0;
      if (calls[i].attention == Attention::kNone) continue;
      ++asked_[i];
      if (!habits_[i].answers) continue;
      returns[i].gain.alone =
          asked_[i] % habits_[i].every == 0 ? habits_[i].gain : 0;
      returns[i].compute = habits_[i].takes;
      if (habits_[i].cpu_group != 0) sum += habits_[i].takes;
    }
    for (size_t i = 0; i < calls.size(); ++i) {
      if (!returns[i].was_asked() || !habits_[i].answers) continue;
      returns[i].waited = habits_[i].cpu_group == 0 ? habits_[i].takes : sum;
      double others = 0;
      for (size_t j = 0; j < calls.size(); ++j) {
        if (j == i || !returns[j].was_asked()) continue;
        others = std::max(others, returns[j].gain.alone);
      }
      const double more = returns[i].gain.alone - others;
      returns[i].gain.beside = more > 0 ? more : habits_[i].adds;
      returns[i].accepted = returns[i].gain.alone > 0.5 ? 1 : 0;
    }
    return returns;
  }

  std::vector<int> asked_;
};

TEST_F(DrafterPolicyTest, BeginsWithATrialOfWhoPaysAndStaysWithIt) {
  Make({{.gain = 1.5, .takes = absl::Milliseconds(4)}});
  policy_->BeginRound({.tokens_per_second = kPrice}, length_);
  EXPECT_TRUE(policy_->Rests()) << "nothing is known";
  EXPECT_EQ(Asked(50)[0], 50);
}

TEST_F(DrafterPolicyTest, WhoDoesNotPayCostsATokenAndAPercent) {
  Make({{.gain = 0.1, .takes = absl::Milliseconds(5)}});
  const int asked = Asked(5000)[0];
  EXPECT_GE(asked, 4);
  // Each time 0.4 tokens are lost, and a trial of four is always finished.
  EXPECT_LE(0.4 * asked, 1 + 0.01 * 5000 + 4 * 0.4);
}

// It gains 0.75 tokens on average for 1, or 1.5 with the rest of its round, and
// so unevenly that it is worth a trial whenever one may be paid.
TEST_F(DrafterPolicyTest, WhoSeemsWorthItCostsATokenAndAPercent) {
  for (const double other : {0.0, 0.5}) {
    budget_ = TrialBudget();
    other_seconds_ = other / kPrice;
    Make({{.gain = 3, .takes = absl::Milliseconds(10), .every = 4}});
    EXPECT_LE((0.25 + other) * Asked(5000)[0], 1 + 0.01 * 5000 + 4) << other;
  }
}

TEST_F(DrafterPolicyTest, WhoBecomesGoodIsFound) {
  Make({{.gain = 0, .takes = absl::Milliseconds(5)}});
  Run(500);
  habits_[0].gain = 2;
  Run(1500);
  EXPECT_EQ(Asked(20)[0], 20);
}

TEST_F(DrafterPolicyTest, WhoBecomesPoorIsLeft) {
  Make({{.gain = 2, .takes = absl::Milliseconds(5)}});
  Run(200);
  habits_[0].gain = 0;
  Run(400);
  EXPECT_LE(Asked(100)[0], 8);
}

TEST_F(DrafterPolicyTest, OfTwoOnTheSameCoresTheBetterOneIsAsked) {
  Make({{.gain = 1, .takes = absl::Milliseconds(4)},
        {.gain = 1.6, .takes = absl::Milliseconds(4)}});
  Run(100);
  const std::vector<int> asked = Asked(200);
  EXPECT_EQ(asked[1], 200);
  EXPECT_LE(asked[0], 10);
}

// It adds half a token, and costs 0.8 or, hidden by the first one, nothing.
TEST_F(DrafterPolicyTest, ASecondOneIsAskedWhereItsGainBesideTheFirstPays) {
  for (const uint64_t cpu_group : {uint64_t{0}, uint64_t{1}}) {
    Make({{.gain = 1.6,
           .takes = absl::Milliseconds(8),
           .cpu_group = cpu_group,
           .adds = 0.5},
          {.gain = 2, .takes = absl::Milliseconds(8), .cpu_group = cpu_group}});
    Run(200);
    const std::vector<int> asked = Asked(100);
    EXPECT_EQ(asked[1], 100) << cpu_group;
    if (cpu_group == 0) {
      EXPECT_EQ(asked[0], 100);
    } else {
      EXPECT_LE(asked[0], 12);
    }
  }
}

TEST_F(DrafterPolicyTest, ASecondOneThatAddsNothingIsNotAskedThoughItIsFree) {
  Make({{.gain = 1.6, .takes = absl::Milliseconds(8), .cpu_group = 0},
        {.gain = 2, .takes = absl::Milliseconds(9), .cpu_group = 0}});
  Run(300);
  const std::vector<int> asked = Asked(100);
  EXPECT_EQ(asked[1], 100);
  EXPECT_LE(asked[0], 50);
}

TEST_F(DrafterPolicyTest, AsksWhereCheapOnesPredictNothing) {
  Make({{.gain = 2, .takes = absl::Milliseconds(5)}});
  Run(100);
  EXPECT_EQ(Asked(10, /*nothing=*/0.3)[0], 10);
  EXPECT_EQ(Asked(10, /*nothing=*/0.2)[0], 0) << "0.4 tokens cost half a one";
}

// 0.03 tokens a call.
TEST_F(DrafterPolicyTest, ACheapOneThatDoesNotPayIsAskedNowAndThen) {
  Make({{.gain = 0, .takes = absl::Microseconds(300)}});
  Run(300);
  const int asked = Asked(300)[0];
  EXPECT_GE(asked, 90);
  EXPECT_LE(asked, 110);
  habits_[0].gain = 5;  // the text begins to copy
  Run(20);
  EXPECT_EQ(Asked(20)[0], 20);
}

// Each trial costs 0.4 tokens by its draft and 2 by the rest of its round.
TEST_F(DrafterPolicyTest, ATrialPaysForWhatItsRoundTakes) {
  Make({{.gain = 0, .takes = absl::Milliseconds(4)}});
  const int cheap = Asked(2000)[0];
  budget_ = TrialBudget();
  other_seconds_ = 0.02;
  Make({{.gain = 0, .takes = absl::Milliseconds(4)}});
  EXPECT_LE(Asked(2000)[0], cheap / 2);
}

// 0.02 tokens a call for each of four sessions.
TEST_F(DrafterPolicyTest, ACheapOneThatDoesNotPayIsAskedLessBesideOthers) {
  others_ = 3;
  Make({{.gain = 0, .takes = absl::Microseconds(200)}});
  Run(300);
  const int asked = Asked(320)[0];
  EXPECT_GE(asked, 15);
  EXPECT_LE(asked, 25);
}

// It gains 0.05 tokens for 0.02. Merging and learning take 0.05 more.
TEST_F(DrafterPolicyTest, ACheapOnePaysForWhatItsTreesTake) {
  Make({{.gain = 0.05, .takes = absl::Microseconds(200)}});
  Run(100);
  EXPECT_EQ(Asked(100)[0], 100);
  handling_ = 0.0005;
  Run(300);
  EXPECT_LE(Asked(100)[0], 30);
}

TEST_F(DrafterPolicyTest, TimeOnTheVerifiersCoresCostsAllSessions) {
  for (const uint64_t cpu_group : {uint64_t{0}, uint64_t{1}}) {
    Make({{.gain = 2, .takes = absl::Milliseconds(5), .cpu_group = cpu_group}});
    others_ = 0;
    Run(100);
    others_ = 7;  // half a token of each
    EXPECT_EQ(Asked(100)[0] > 50, cpu_group == 0) << cpu_group;
  }
}

// On the verifier's cores its work stands in the way of the pass.
TEST_F(DrafterPolicyTest, WaitsForOneThatCatchesUpOnTheVerifiersCores) {
  Make({{.gain = 2, .takes = absl::Milliseconds(5)}});
  policy_->BeginRound({.tokens_per_second = kPrice}, length_);
  policy_->ConsiderTrial();
  DraftCall call = policy_->FurtherCalls(1)[0];
  EXPECT_EQ(call.attention, Attention::kAwaited);
  EXPECT_GT(call.patience, absl::Milliseconds(100));
  Run(100);
  policy_->ConsiderTrial();
  call = policy_->FurtherCalls(1)[0];
  EXPECT_EQ(call.attention, Attention::kAwaited);
  EXPECT_LT(call.patience, absl::Milliseconds(50)) << "as much as it gains";
}

// 2 tokens, of which 0.5 are the wait's.
TEST_F(DrafterPolicyTest, PaysForWhatARoundTakesBeyondItsDrafts) {
  Make({{.gain = 2, .takes = absl::Milliseconds(5)}});
  other_seconds_ = 0.01;
  EXPECT_EQ(Asked(100)[0], 100);
  other_seconds_ = 0.02;
  Run(300);
  EXPECT_LE(Asked(100)[0], 8);
}

// Nobody waits for what has much to catch up with, if it does not slow the
// pass.
TEST_F(DrafterPolicyTest, CatchesUpDuringThePassOnOtherCores) {
  Make({{.gain = 2, .takes = absl::Milliseconds(5), .cpu_group = 0}});
  Run(20);
  policy_->BeginRound({.tokens_per_second = kPrice}, length_);
  EXPECT_EQ(policy_->FurtherCalls(1)[0].attention, Attention::kAwaited);
  for (int i = 0; i < 20; ++i) policy_->Learn({}, {.tokens = 1});
  EXPECT_EQ(policy_->FurtherCalls(1)[0].attention, Attention::kAsked);
}

// One that owes an answer keeps no other from being asked.
TEST_F(DrafterPolicyTest, WhoDoesNotAnswerIsLeftAloneForAWhile) {
  Make({{.gain = 3, .takes = absl::Milliseconds(2)},
        {.gain = 1.5, .takes = absl::Milliseconds(2)}});
  Run(100);
  habits_[0].answers = false;
  Run(10);
  const std::vector<int> asked = Asked(50);
  EXPECT_EQ(asked[0], 0);
  EXPECT_GE(asked[1], 45);
  habits_[0].answers = true;
  Run(200);
  EXPECT_EQ(Asked(50)[0], 50);
}

TEST_F(DrafterPolicyTest, WhoIsSwitchedOffIsNotAsked) {
  Make({{.gain = 3, .takes = absl::Milliseconds(2)}});
  Run(50);
  policy_->SetActive(0, false);
  EXPECT_EQ(Asked(50)[0], 0);
  policy_->SetActive(0, true);
  EXPECT_EQ(Asked(50)[0], 50);
}

TEST_F(DrafterPolicyTest, PatienceIsWhatTheTokensMayBeWorth) {
  Make({{.gain = 2, .takes = absl::Milliseconds(5)}});
  Run(100);
  policy_->BeginRound({.tokens_per_second = kPrice}, length_);
  const absl::Duration patience = policy_->FurtherCalls(1)[0].patience;
  EXPECT_GE(patience, absl::Milliseconds(20));
  EXPECT_LE(patience, absl::Milliseconds(25));
}

// A network that takes 2 ms, and 0.1 ms for each token that it has not seen.
class CatchUpTest : public DrafterPolicyTest {
 protected:
  // observed: rounds in which it gained 0.6 tokens.
  void MakeKnown(int64_t length, int observed) {
    DrafterValue value;
    value.catch_up_seconds.Observe(0.0001);
    for (int i = 0; i < observed; ++i) {
      value.alone.Observe(0.6);
      value.seconds.Observe(0.002);
    }
    policy_.emplace(std::vector<DrafterValue>{value}, &budget_);
    policy_->BeginRound({.tokens_per_second = kPrice}, length);
    policy_->ConsiderTrial();
  }
};

// Catching up takes 1 ms and 200 ms, which 16 rounds have to pay.
TEST_F(CatchUpTest, ALongTextHasToPayForIt) {
  MakeKnown(/*length=*/10, /*observed=*/12);
  EXPECT_FALSE(policy_->Rests());
  MakeKnown(/*length=*/2000, /*observed=*/12);
  EXPECT_TRUE(policy_->Rests());
}

// The budget begins with a token; 200 tokens take two to see.
TEST_F(CatchUpTest, ATrialThatTheBudgetCannotPayIsNotBegun) {
  MakeKnown(/*length=*/10, /*observed=*/0);
  EXPECT_TRUE(policy_->is_trying());
  MakeKnown(/*length=*/200, /*observed=*/0);
  EXPECT_FALSE(policy_->is_trying());
}

TEST_F(CatchUpTest, TellsWhatItTook) {
  MakeKnown(/*length=*/100, /*observed=*/12);
  DrafterReturn r = {.attention = Attention::kAwaited};
  r.waited = absl::Milliseconds(12);
  EXPECT_NEAR(policy_->Learn({&r, 1}, {.tokens = 1, .other = 0.001}), 0.011,
              1e-9);
  EXPECT_EQ(policy_->Learn({&r, 1}, {.tokens = 1, .other = 0.001}), 0);
}

class LevelPriceTest : public DrafterPolicyTest {
 protected:
  // The least reach of a level that takes 2 ms, if the text goes on with this
  // chance. The drafter is worth asking at any price.
  float LeastReach(TimePrice price, double continues) {
    TrialBudget budget;
    DrafterValue value;
    for (int i = 0; i < 20; ++i) {
      value.alone.Observe(30);
      value.seconds.Observe(0.004);
      value.level_seconds.Observe(0.002);
      value.continues.Observe(continues);
    }
    DrafterPolicy policy({value}, &budget);
    policy.Learn({}, {.tokens = 1});
    policy.BeginRound(price, length_);
    return policy.FurtherCalls(1)[0].least_reach;
  }
};

// A level costs 0.2 tokens, and a row 0.1.
TEST_F(LevelPriceTest, ALevelHasToBeWorthItsTimeAndARow) {
  EXPECT_NEAR(LeastReach({.tokens_per_second = 100}, 0.5), 0.4, 0.01);
  EXPECT_NEAR(LeastReach({.tokens_per_second = 100, .row = 0.1}, 0.5), 0.6,
              0.01);
  EXPECT_NEAR(LeastReach({.tokens_per_second = 50}, 0.5), 0.2, 0.01);
}

TEST_F(LevelPriceTest, WhereNoLevelPaysOneIsDrafted) {
  EXPECT_EQ(LeastReach({.tokens_per_second = 1000}, 0.5), 1);
}

TEST_F(LevelPriceTest, UnknownLevelsAreAskedFor) {
  Make({{.gain = 3, .takes = absl::Milliseconds(2)}});
  Run(50);
  policy_->BeginRound({.tokens_per_second = kPrice}, length_);
  EXPECT_EQ(policy_->FurtherCalls(1)[0].least_reach, 0);
}

}  // namespace
}  // namespace espalier::coordinator
