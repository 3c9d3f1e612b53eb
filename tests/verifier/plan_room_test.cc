#include "verifier/plan_room.h"

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

TEST(PlanRoom, TwoShareWhereBothFit) {
  const RoomPlan plan =
      PlanRoom({{Fresh(40, 50), Fresh(30, 50)}}, /*pool=*/100, /*free=*/100);
  EXPECT_THAT(plan.admitted, ElementsAre(0, 1));
  EXPECT_THAT(plan.runs, ElementsAre(0, 1));
  EXPECT_THAT(plan.preempted, IsEmpty());
}

TEST(PlanRoom, WhoExpectsMoreThanIsLeftWaits) {
  const RoomPlan plan =
      PlanRoom({{Fresh(40, 60), Fresh(30, 50)}}, /*pool=*/100, /*free=*/100);
  EXPECT_THAT(plan.admitted, ElementsAre(0));
  EXPECT_THAT(plan.runs, ElementsAre(0));
}

TEST(PlanRoom, WhatOthersExpectCountsAlsoWhileTheyThink) {
  const RoomPlan plan = PlanRoom({{Thinking(20, 60), Fresh(30, 50)}},
                                 /*pool=*/100, /*free=*/80);
  EXPECT_THAT(plan.admitted, IsEmpty());
  EXPECT_THAT(plan.runs, IsEmpty());
}

TEST(PlanRoom, WhatIsHeldCountsThoughLessIsExpected) {
  const RoomPlan plan = PlanRoom({{Thinking(60, 40), Fresh(30, 50)}},
                                 /*pool=*/100, /*free=*/40);
  EXPECT_THAT(plan.admitted, IsEmpty());
  EXPECT_THAT(plan.runs, IsEmpty());
}

TEST(PlanRoom, RoomIsGrantedOnce) {
  const RoomPlan plan = PlanRoom({{Running(20, 35, 40), Running(20, 35, 40)}},
                                 /*pool=*/60, /*free=*/20);
  EXPECT_THAT(plan.runs, ElementsAre(0));
  EXPECT_THAT(plan.preempted, IsEmpty());
}

TEST(PlanRoom, ALargeOneIsNotOvertakenWhileItWaits) {
  const RoomPlan plan =
      PlanRoom({{Running(20, 20, 40), Fresh(70, 80), Fresh(5, 10)}},
               /*pool=*/100, /*free=*/80);
  EXPECT_THAT(plan.admitted, IsEmpty());
  EXPECT_THAT(plan.runs, ElementsAre(0));
}

TEST(PlanRoom, WhoIsAloneIsAdmittedWhateverItExpects) {
  const RoomPlan plan =
      PlanRoom({{Fresh(70, 100), Fresh(5, 10)}}, /*pool=*/100, /*free=*/100);
  EXPECT_THAT(plan.admitted, ElementsAre(0));
  EXPECT_THAT(plan.runs, ElementsAre(0));
}

TEST(PlanRoom, TheYoungestGiveWayToTheOldest) {
  const RoomPlan plan = PlanRoom({{Running(40, 70, 70), Running(20, 25, 40),
                                   Running(15, 15, 40), Running(20, 30, 40)}},
                                 /*pool=*/100, /*free=*/5);
  EXPECT_THAT(plan.preempted, ElementsAre(2, 3));
  // The room granted to the first leaves too little for the second.
  EXPECT_THAT(plan.runs, ElementsAre(0, 1));
}

TEST(PlanRoom, NoMoreGiveWayThanMust) {
  const RoomPlan plan =
      PlanRoom({{Running(40, 45, 70), Thinking(30, 40), Thinking(30, 40)}},
               /*pool=*/100, /*free=*/0);
  EXPECT_THAT(plan.preempted, ElementsAre(2));
  EXPECT_THAT(plan.runs, ElementsAre(0));
}

TEST(PlanRoom, TheYoungestTakesNothingFromItsEldersAndKeepsWhatItHas) {
  const RoomPlan plan = PlanRoom({{Thinking(60, 70), Running(40, 50, 60)}},
                                 /*pool=*/100, /*free=*/0);
  EXPECT_THAT(plan.preempted, IsEmpty());
  EXPECT_THAT(plan.runs, IsEmpty());
}

TEST(PlanRoom, NobodyGivesWayInVain) {
  const RoomPlan plan =
      PlanRoom({{Thinking(70, 70), Running(10, 60, 60), Running(20, 20, 40)}},
               /*pool=*/100, /*free=*/0);
  EXPECT_THAT(plan.preempted, IsEmpty());
  EXPECT_THAT(plan.runs, ElementsAre(2));
}

TEST(PlanRoom, WhoSleepsGivesWayToTheYoungToo) {
  const RoomPlan plan =
      PlanRoom({{Dormant(50), Running(30, 40, 60), Running(20, 20, 40)}},
               /*pool=*/100, /*free=*/0);
  EXPECT_THAT(plan.preempted, ElementsAre(0));
  EXPECT_THAT(plan.runs, ElementsAre(1, 2));
}

TEST(PlanRoom, WhoSleepsKeepsNobodyOut) {
  const RoomPlan plan =
      PlanRoom({{Dormant(90), Fresh(40, 60)}}, /*pool=*/100, /*free=*/10);
  EXPECT_THAT(plan.admitted, ElementsAre(1));
  EXPECT_THAT(plan.preempted, ElementsAre(0));
  EXPECT_THAT(plan.runs, ElementsAre(1));
}

}  // namespace
}  // namespace espalier::verifier
