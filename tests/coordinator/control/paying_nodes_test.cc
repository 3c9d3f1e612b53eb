#include "coordinator/control/paying_nodes.h"

#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace espalier::coordinator {
namespace {

std::vector<float> Logs(const std::vector<double>& chances) {
  std::vector<float> logs;
  for (double chance : chances) {
    logs.push_back(static_cast<float>(std::log(chance)));
  }
  return logs;
}

// 10 ms for one row, 1 ms for each further one.
PassCosts Rising() {
  return {{.rows = 1, .time = absl::Milliseconds(10)},
          {.rows = 101, .time = absl::Milliseconds(110)}};
}

TEST(NodeBudgetTest, TakesTheNodesWhoseChanceExceedsTheirPrice) {
  const PassCosts costs = Rising();
  const RowCost cost = {
      .costs = costs, .other_rows = 1, .tokens_per_second = 250};  // 0.25 a row
  EXPECT_EQ(NodesThatPay(Logs({0.9, 0.5, 0.3, 0.2, 0.1}), cost).nodes, 3);
  EXPECT_EQ(NodesThatPay(Logs({0.2, 0.1}), cost).nodes, 0);
  EXPECT_EQ(NodesThatPay({}, cost).nodes, 0);
}

TEST(NodeBudgetTest, TakesAllWhereRowsAreFreeOrOfUnknownPrice) {
  EXPECT_EQ(NodesThatPay(Logs({0.5, 0.01}), {.tokens_per_second = 1000}).nodes,
            2);
  const PassCosts costs = Rising();
  EXPECT_EQ(
      NodesThatPay(Logs({0.5, 0.01}), {.costs = costs, .other_rows = 1}).nodes,
      2);
}

TEST(NodeBudgetTest, TakesNoNodeThatGainsNothing) {
  const std::vector<float> never = {-0.5f, -HUGE_VALF};
  EXPECT_EQ(NodesThatPay(never, {}).nodes, 1);
}

TEST(NodeBudgetTest, PassesAStepThatAllBehindItPayFor) {
  const PassCosts costs = {{.rows = 1, .time = absl::Milliseconds(10)},
                           {.rows = 2, .time = absl::Milliseconds(16)},
                           {.rows = 9, .time = absl::Milliseconds(16)}};
  const RowCost cost = {
      .costs = costs, .other_rows = 1, .tokens_per_second = 100};
  EXPECT_EQ(NodesThatPay(Logs({0.5}), cost).nodes, 0);  // costs 0.6
  EXPECT_EQ(NodesThatPay(Logs({0.5, 0.4}), cost).nodes, 2);
}

TEST(NodeBudgetTest, LoadMakesItFewer) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 100; ++i) {
    std::vector<double> chances(1 + random() % 30);
    double chance = 1;
    for (double& c : chances) {
      c = chance *= std::uniform_real_distribution<>(0.6, 1)(random);
    }
    const PassCosts costs = Rising();
    int64_t last = 1000;
    for (double load : {0.0, 10.0, 50.0, 200.0, 1000.0}) {
      const int64_t nodes =
          NodesThatPay(
              Logs(chances),
              {.costs = costs, .other_rows = 1, .tokens_per_second = load})
              .nodes;
      EXPECT_LE(nodes, last);
      last = nodes;
    }
  }
}

}  // namespace
}  // namespace espalier::coordinator
