#include "verifier/engine/plan_room.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier::verifier {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

RoomClaim Fresh(int64_t next, int64_t expected) {
  return {.waits = true, .next = next, .expected = expected};
}

RoomClaim Running(int64_t held, int64_t next, int64_t expected) {
  return {.held = held,
          .waits = true,
          .next = next,
          .expected = expected,
          .admitted = true};
}

// Between two rounds.
RoomClaim Thinking(int64_t held, int64_t expected) {
  return {.held = held, .expected = expected, .admitted = true};
}

RoomClaim Dormant(int64_t held) {
  return {.held = held, .expected = held, .admitted = true, .dormant = true};
}

struct WholePlan : RoomPlan {
  std::vector<size_t> admitted;
};

// Admits, and divides the room.
WholePlan PlanBoth(std::vector<RoomClaim> claims, int64_t pool, int64_t free) {
  const std::vector<size_t> admitted = PlanAdmission(claims, pool);
  for (size_t i : admitted) claims[i].admitted = true;
  return {PlanRoom(claims, free), admitted};
}

TEST(PlanRoom, TwoShareWhereBothFit) {
  const WholePlan plan =
      PlanBoth({Fresh(40, 50), Fresh(30, 50)}, /*pool=*/100, /*free=*/100);
  EXPECT_THAT(plan.admitted, ElementsAre(0, 1));
  EXPECT_THAT(plan.runs, ElementsAre(0, 1));
  EXPECT_THAT(plan.preempted, IsEmpty());
}

TEST(PlanRoom, WhoExpectsMoreThanIsLeftWaits) {
  const WholePlan plan =
      PlanBoth({Fresh(40, 60), Fresh(30, 50)}, /*pool=*/100, /*free=*/100);
  EXPECT_THAT(plan.admitted, ElementsAre(0));
  EXPECT_THAT(plan.runs, ElementsAre(0));
}

TEST(PlanRoom, WhatOthersExpectCountsAlsoWhileTheyThink) {
  const WholePlan plan = PlanBoth({Thinking(20, 60), Fresh(30, 50)},
                                  /*pool=*/100, /*free=*/80);
  EXPECT_THAT(plan.admitted, IsEmpty());
  EXPECT_THAT(plan.runs, IsEmpty());
}

TEST(PlanRoom, WhatIsHeldCountsThoughLessIsExpected) {
  const WholePlan plan = PlanBoth({Thinking(60, 40), Fresh(30, 50)},
                                  /*pool=*/100, /*free=*/40);
  EXPECT_THAT(plan.admitted, IsEmpty());
  EXPECT_THAT(plan.runs, IsEmpty());
}

TEST(PlanRoom, RoomIsGrantedOnce) {
  const WholePlan plan = PlanBoth({Running(20, 35, 40), Running(20, 35, 40)},
                                  /*pool=*/60, /*free=*/20);
  EXPECT_THAT(plan.runs, ElementsAre(0));
  EXPECT_THAT(plan.preempted, IsEmpty());
}

TEST(PlanRoom, ALargeOneIsNotOvertakenWhileItWaits) {
  const WholePlan plan =
      PlanBoth({Running(20, 20, 40), Fresh(70, 80), Fresh(5, 10)},
               /*pool=*/100, /*free=*/80);
  EXPECT_THAT(plan.admitted, IsEmpty());
  EXPECT_THAT(plan.runs, ElementsAre(0));
}

TEST(PlanRoom, WhoIsAloneIsAdmittedWhateverItExpects) {
  const WholePlan plan =
      PlanBoth({Fresh(70, 100), Fresh(5, 10)}, /*pool=*/100, /*free=*/100);
  EXPECT_THAT(plan.admitted, ElementsAre(0));
  EXPECT_THAT(plan.runs, ElementsAre(0));
}

TEST(PlanRoom, TheYoungestGiveWayToTheOldest) {
  const WholePlan plan = PlanBoth({Running(40, 70, 70), Running(20, 25, 40),
                                   Running(15, 15, 40), Running(20, 30, 40)},
                                  /*pool=*/100, /*free=*/5);
  EXPECT_THAT(plan.preempted, ElementsAre(2, 3));
  // The room granted to the first leaves too little for the second.
  EXPECT_THAT(plan.runs, ElementsAre(0, 1));
}

TEST(PlanRoom, NoMoreGiveWayThanMust) {
  const WholePlan plan =
      PlanBoth({Running(40, 45, 70), Thinking(30, 40), Thinking(30, 40)},
               /*pool=*/100, /*free=*/0);
  EXPECT_THAT(plan.preempted, ElementsAre(2));
  EXPECT_THAT(plan.runs, ElementsAre(0));
}

TEST(PlanRoom, TheYoungestTakesNothingFromItsEldersAndKeepsWhatItHas) {
  const WholePlan plan = PlanBoth({Thinking(60, 70), Running(40, 50, 60)},
                                  /*pool=*/100, /*free=*/0);
  EXPECT_THAT(plan.preempted, IsEmpty());
  EXPECT_THAT(plan.runs, IsEmpty());
}

TEST(PlanRoom, NobodyGivesWayInVain) {
  const WholePlan plan =
      PlanBoth({Thinking(70, 70), Running(10, 60, 60), Running(20, 20, 40)},
               /*pool=*/100, /*free=*/0);
  EXPECT_THAT(plan.preempted, IsEmpty());
  EXPECT_THAT(plan.runs, ElementsAre(2));
}

TEST(PlanRoom, WhoSleepsGivesWayToTheYoungToo) {
  const WholePlan plan =
      PlanBoth({Dormant(50), Running(30, 40, 60), Running(20, 20, 40)},
               /*pool=*/100, /*free=*/0);
  EXPECT_THAT(plan.preempted, ElementsAre(0));
  EXPECT_THAT(plan.runs, ElementsAre(1, 2));
}

TEST(PlanRoom, WhoSleepsKeepsNobodyOut) {
  const WholePlan plan =
      PlanBoth({Dormant(90), Fresh(40, 60)}, /*pool=*/100, /*free=*/10);
  EXPECT_THAT(plan.admitted, ElementsAre(1));
  EXPECT_THAT(plan.preempted, ElementsAre(0));
  EXPECT_THAT(plan.runs, ElementsAre(1));
}

// A holds 20 alone, B and C 10 each and 30 together.
std::vector<RoomClaim> TwoThatShare(int64_t next_of_the_oldest) {
  RoomClaim b = Running(10, 10, 40), c = b;
  b.shared = c.shared = 30;
  return {Running(20, next_of_the_oldest, 60), b, c};
}

TEST(PlanRoom, WhatIsSharedMayComeFreeWithTheLastThatHoldsIt) {
  const RoomPlan plan = PlanRoom(TwoThatShare(60), /*free=*/0);
  EXPECT_THAT(plan.preempted, ElementsAre(1, 2));
  EXPECT_THAT(plan.runs, IsEmpty());  // how much it was is not known yet
}

TEST(PlanRoom, WhoHoldsNothingAloneCanGiveWay) {
  std::vector<RoomClaim> claims = {Running(20, 40, 40), Thinking(0, 10),
                                   Thinking(0, 10)};
  claims[1].shared = claims[2].shared = 20;
  EXPECT_THAT(PlanRoom(claims, /*free=*/0).preempted, ElementsAre(1, 2));
}

TEST(PlanRoom, NothingSharedIsGivenUpWhereTheirOwnIsEnough) {
  const RoomPlan plan = PlanRoom(TwoThatShare(30), /*free=*/0);
  EXPECT_THAT(plan.preempted, ElementsAre(2));
  EXPECT_THAT(plan.runs, ElementsAre(0, 1));
}

TEST(PlanRoom, NothingSharedIsGivenUpInVain) {
  const RoomPlan plan = PlanRoom(TwoThatShare(101), /*free=*/0);
  EXPECT_THAT(plan.preempted, IsEmpty());
  EXPECT_THAT(plan.runs, ElementsAre(1, 2));
}

// A sequence within its tenant's share comes first, and those beyond theirs do
// not keep it from the pool.
TEST(PlanRoom, WhoIsBeyondItsShareGivesWay) {
  std::vector<RoomClaim> claims = {Running(40, 41, 50), Fresh(30, 40),
                                   Running(40, 41, 50), Fresh(10, 10)};
  claims[2].beyond_share = claims[3].beyond_share = true;
  const WholePlan plan = PlanBoth(claims, /*pool=*/100, /*free=*/20);
  EXPECT_THAT(plan.admitted, ElementsAre(1));
  EXPECT_THAT(plan.preempted, ElementsAre(2));
  EXPECT_THAT(plan.runs, ElementsAre(0, 1));
}

TEST(PlanRoom, WithinTheShareTheOlderKeepOthersOut) {
  std::vector<RoomClaim> claims = {Running(40, 41, 70), Fresh(30, 40),
                                   Running(10, 11, 20)};
  claims[2].beyond_share = true;
  const WholePlan plan = PlanBoth(claims, /*pool=*/100, /*free=*/50);
  EXPECT_THAT(plan.admitted, IsEmpty());
  EXPECT_THAT(plan.runs, ElementsAre(0, 2));
}

}  // namespace
}  // namespace espalier::verifier
