#include "verifier/engine/plan_pass.h"

#include <deque>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier::verifier {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr PassLimits kLimits = {
    .batch_rows = 40, .prompt_rows = 40, .sequence_rows = 32, .chain_rows = 32};

// As those of a GPU.
constexpr PassLimits kLongChains = {
    .batch_rows = 40, .prompt_rows = 80, .sequence_rows = 32, .chain_rows = 72};

PassShare Tree(int64_t request) {
  return {.request = request, .with_tree = true};
}
PassShare Prompt(int64_t request, int64_t rows) {
  return {.request = request, .prompt_rows = rows};
}
PassShare PromptAndTree(int64_t request, int64_t rows) {
  return {.request = request, .prompt_rows = rows, .with_tree = true};
}

TEST(PlanPass, TakesAllTreesThatFitOldestFirst) {
  EXPECT_THAT(PlanPass({{0, 16}, {0, 16}, {0, 16}, {0, 8}}, kLimits),
              ElementsAre(Tree(0), Tree(1), Tree(3)));
  EXPECT_THAT(PlanPass({}, kLimits), IsEmpty());
}

TEST(PlanPass, APromptAloneTakesWhatOneSequenceMay) {
  EXPECT_THAT(PlanPass({{500, 8}}, kLimits), ElementsAre(Prompt(0, 32)));
}

TEST(PlanPass, TheTreeRidesBehindThePromptsLastRowsIfItFits) {
  EXPECT_THAT(PlanPass({{24, 8}}, kLimits), ElementsAre(PromptAndTree(0, 24)));
  EXPECT_THAT(PlanPass({{25, 8}}, kLimits), ElementsAre(Prompt(0, 25)));
  EXPECT_THAT(PlanPass({{20, 8}, {20, 8}}, kLimits),
              ElementsAre(PromptAndTree(0, 20), Prompt(1, 12)));
}

TEST(PlanPass, PromptsGetWhatTreesLeaveAndAQuarterAtLeast) {
  EXPECT_THAT(PlanPass({{500, 8}, {0, 12}}, kLimits),
              ElementsAre(Tree(1), Prompt(0, 28)));
  EXPECT_THAT(PlanPass({{0, 16}, {0, 16}, {500, 8}}, kLimits),
              ElementsAre(Tree(0), Prompt(2, 24)));
  // No more rows are reserved than prompts can use.
  EXPECT_THAT(PlanPass({{0, 16}, {0, 16}, {3, 5}}, kLimits),
              ElementsAre(Tree(0), Tree(1), PromptAndTree(2, 3)));
}

TEST(PlanPass, TheOldestRequestIsServedWhateverItsSize) {
  const PassLimits narrow = {
      .batch_rows = 4, .prompt_rows = 4, .sequence_rows = 32, .chain_rows = 32};
  EXPECT_THAT(PlanPass({{0, 20}, {0, 2}, {7, 2}}, narrow),
              ElementsAre(Tree(0)));
  EXPECT_THAT(PlanPass({{7, 20}, {0, 2}, {0, 2}}, narrow),
              ElementsAre(Tree(1), Prompt(0, 2)));
  const PassLimits least = {
      .batch_rows = 1, .prompt_rows = 1, .sequence_rows = 32, .chain_rows = 32};
  EXPECT_THAT(PlanPass({{7, 20}, {0, 1}}, least), ElementsAre(Prompt(0, 1)));
}

// No tree waits that longer passes would hold up.
TEST(PlanPass, PromptsAloneHavePassesOfTheirOwnLength) {
  EXPECT_THAT(PlanPass({{500, 8}}, kLongChains), ElementsAre(Prompt(0, 72)));
  EXPECT_THAT(PlanPass({{50, 8}, {500, 8}}, kLongChains),
              ElementsAre(Prompt(0, 50), Prompt(1, 30)));
  EXPECT_THAT(PlanPass({{500, 8}, {0, 12}}, kLongChains),
              ElementsAre(Tree(1), Prompt(0, 28)));
}

// A root alone goes on with the chain.
TEST(PlanPass, ATreeBehindItsPromptIsNoChain) {
  EXPECT_THAT(PlanPass({{24, 8}}, kLongChains),
              ElementsAre(PromptAndTree(0, 24)));
  EXPECT_THAT(PlanPass({{25, 8}}, kLongChains), ElementsAre(Prompt(0, 25)));
  EXPECT_THAT(PlanPass({{71, 1}}, kLongChains),
              ElementsAre(PromptAndTree(0, 71)));
  EXPECT_THAT(PlanPass({{72, 1}}, kLongChains), ElementsAre(Prompt(0, 72)));
}

// A prompt whose rows are expensive takes as much of the pass, not as many
// rows.
TEST(PlanPass, ExpensiveRowsAreFewerWhereOthersWait) {
  const PassLimits limits = {.batch_rows = 64,
                             .prompt_rows = 64,
                             .sequence_rows = 64,
                             .chain_rows = 64};
  const PassWork dear = {
      .prompt_rows = 500, .tree_rows = 1, .prompt_row_cost = 4};
  EXPECT_THAT(PlanPass({dear}, limits), ElementsAre(Prompt(0, 64)));
  EXPECT_THAT(PlanPass({dear, {0, 8}}, limits),
              ElementsAre(Tree(1), Prompt(0, 14)));
}

// Requests come, are served, go to the back of the queue, and go.
TEST(PlanPass, KeepsItsPromisesInAnyQueue) {
  std::mt19937_64 random(1);
  for (int trial = 0; trial < 200; ++trial) {
    const int64_t batch_rows = 1 + static_cast<int64_t>(random() % 60);
    const PassLimits limits = {
        .batch_rows = batch_rows,
        .prompt_rows = batch_rows + static_cast<int64_t>(random() % 3 * 20),
        .sequence_rows = 20,
        .chain_rows = 20 + static_cast<int64_t>(random() % 2 * 15)};
    std::deque<PassWork> queue;
    for (int pass = 0; pass < 60; ++pass) {
      while (queue.size() < 8) {
        queue.push_back({static_cast<int64_t>(random() % 3 * (random() % 40)),
                         1 + static_cast<int64_t>(random() % 20),
                         1 + static_cast<int64_t>(random() % 2 * 3)});
      }
      const std::vector<PassWork> waiting(queue.begin(), queue.end());
      const std::vector<PassShare> plan = PlanPass(waiting, limits);
      ASSERT_FALSE(plan.empty());
      int64_t rows = 0;
      bool has_tree = false;
      std::vector<bool> served(waiting.size());
      for (const PassShare& share : plan) {
        const PassWork& work = waiting[share.request];
        ASSERT_FALSE(served[share.request]);
        served[share.request] = true;
        const int64_t own =
            share.prompt_rows + (share.with_tree ? work.tree_rows : 0);
        rows += own;
        ASSERT_GT(own, 0);
        const bool is_chain = !share.with_tree || work.tree_rows == 1;
        ASSERT_LE(own, is_chain ? limits.chain_rows : limits.sequence_rows);
        has_tree |= work.prompt_rows == 0;
        ASSERT_LE(share.prompt_rows, work.prompt_rows);
        if (share.with_tree) {
          ASSERT_EQ(share.prompt_rows, work.prompt_rows);
        }
      }
      ASSERT_TRUE(served[0]);
      const int64_t most = has_tree ? limits.batch_rows : limits.prompt_rows;
      ASSERT_TRUE(rows <= most || plan.size() == 1);
      std::deque<PassWork> next;
      for (size_t i = 0; i < waiting.size(); ++i) {
        if (!served[i]) next.push_back(waiting[i]);
      }
      for (const PassShare& share : plan) {
        PassWork work = waiting[share.request];
        work.prompt_rows -= share.prompt_rows;
        if (!share.with_tree) next.push_back(work);
      }
      queue = std::move(next);
    }
  }
}

}  // namespace
}  // namespace espalier::verifier
