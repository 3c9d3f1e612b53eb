// Single steps against their definition: the flow is the exact expectation of
// acceptance, does not exceed the target, and is maximal for gr.

#include "verifier/flow/single_step.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <ostream>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/verifier/flow/max_flow.h"

namespace espalier::verifier {
namespace {

struct Problem {
  std::vector<double> distribution;
  std::vector<double> target;
  int64_t num_draws;
};

std::vector<double> RandomDistribution(size_t size, double spread, double zeros,
                                       std::mt19937_64& random) {
  std::normal_distribution<double> logit(0, spread);
  std::bernoulli_distribution is_zero(zeros);
  std::vector<double> distribution(size);
  for (double& p : distribution)
    p = is_zero(random) ? 0 : std::exp(logit(random));
  if (std::all_of(distribution.begin(), distribution.end(),
                  [](double p) { return p == 0; })) {
    distribution[0] = 1;
  }
  const double sum =
      std::accumulate(distribution.begin(), distribution.end(), 0.0);
  for (double& p : distribution) p /= sum;
  return distribution;
}

// Returns problems with targets of less than all mass, with zeros, equal to the
// distribution, and with equal ratios.
std::vector<Problem> Problems(size_t size, int64_t num_draws) {
  std::mt19937_64 random(size * 10 + num_draws);
  std::vector<Problem> problems;
  for (double spread : {0.3, 1.5, 6.0}) {
    for (double mass : {1.0, 0.6, 0.01}) {
      for (double zeros : {0.0, 0.4}) {
        Problem problem = {
            .distribution = RandomDistribution(size, spread, 0, random),
            .target = RandomDistribution(size, spread, zeros, random),
            .num_draws = num_draws};
        for (double& wanted : problem.target) wanted *= mass;
        problems.push_back(problem);
        problem.target = problem.distribution;
        for (double& wanted : problem.target) wanted *= mass;
        problems.push_back(problem);
        problem.target[0] = 0;
        problems.push_back(problem);
      }
    }
  }
  return problems;
}

double Probability(const Problem& problem, const std::vector<int32_t>& draws) {
  double probability = 1;
  for (int32_t x : draws) probability *= problem.distribution[x];
  return probability;
}

void ForEachDraws(const Problem& problem,
                  const std::function<void(const std::vector<int32_t>&)>& see) {
  std::vector<int32_t> draws(problem.num_draws, 0);
  const auto size = static_cast<int32_t>(problem.distribution.size());
  for (;;) {
    see(draws);
    size_t digit = draws.size();
    while (digit > 0 && draws[digit - 1] == size - 1) draws[--digit] = 0;
    if (digit == 0) return;
    ++draws[digit - 1];
  }
}

struct Named {
  const char* name;
  std::unique_ptr<SingleStep> (*make)();
};
void PrintTo(const Named& named, std::ostream* out) { *out << named.name; }

class EveryStep : public ::testing::TestWithParam<Named> {
 protected:
  void Check(const Problem& problem) {
    std::vector<double> expected(problem.distribution.size());
    std::vector<double> flow;
    ForEachDraws(problem, [&](const std::vector<int32_t>& draws) {
      step_->Plan({problem.distribution, problem.target, draws}, plan_);
      flow = plan_.flow;
      double sum = 0;
      for (size_t i = 0; i < draws.size(); ++i) {
        ASSERT_GE(plan_.accept[i], 0);
        sum += plan_.accept[i];
        expected[draws[i]] += Probability(problem, draws) * plan_.accept[i];
      }
      ASSERT_LE(sum, 1 + 1e-12);
    });
    for (size_t x = 0; x < expected.size(); ++x) {
      ASSERT_NEAR(flow[x], expected[x], 1e-12);
      ASSERT_LE(flow[x], problem.target[x] + 1e-15);
    }
  }

  std::unique_ptr<SingleStep> step_ = GetParam().make();
  StepPlan plan_;
};

TEST_P(EveryStep, FlowIsTheExpectedAcceptanceAndFitsTheTarget) {
  for (size_t size : {1, 2, 3, 6}) {
    for (int64_t num_draws : {1, 2, 3, 4}) {
      for (const Problem& problem : Problems(size, num_draws)) Check(problem);
    }
  }
}

TEST_P(EveryStep, OfTwentyTokens) {
  for (const Problem& problem : Problems(20, 2)) Check(problem);
}

INSTANTIATE_TEST_SUITE_P(Steps, EveryStep,
                         ::testing::Values(Named{"sps", NewSpsStep},
                                           Named{"kseq", NewKseqStep},
                                           Named{"rrs", NewRrsStep},
                                           Named{"gr", NewGrStep}),
                         [](const auto& named) { return named.param.name; });

// The chance of draws without replacement, in their order.
double DistinctProbability(const Problem& problem,
                           const std::vector<int32_t>& draws) {
  double probability = 1;
  std::vector<double> distribution = problem.distribution;
  for (int32_t draw : draws) {
    if (distribution[draw] == 0) return 0;
    probability *=
        distribution[draw] /
        std::accumulate(distribution.begin(), distribution.end(), 0.0);
    distribution[draw] = 0;
  }
  return probability;
}

TEST(DistinctStep, FlowIsTheExpectedAcceptanceAndFitsTheTarget) {
  const auto step = NewDistinctStep();
  StepPlan plan;
  for (int64_t num_draws : {1, 2, 3, 4}) {
    for (const Problem& problem : Problems(5, num_draws)) {
      std::vector<double> expected(problem.distribution.size());
      std::vector<double> flow;
      ForEachDraws(problem, [&](const std::vector<int32_t>& draws) {
        const double probability = DistinctProbability(problem, draws);
        if (probability == 0) return;
        step->Plan({problem.distribution, problem.target, draws}, plan);
        flow = plan.flow;
        double sum = 0;
        for (size_t i = 0; i < draws.size(); ++i) {
          ASSERT_GE(plan.accept[i], 0);
          sum += plan.accept[i];
          expected[draws[i]] += probability * plan.accept[i];
        }
        ASSERT_LE(sum, 1 + 1e-12);
      });
      for (size_t x = 0; x < expected.size(); ++x) {
        ASSERT_NEAR(flow[x], expected[x], 1e-11);
        ASSERT_LE(flow[x], problem.target[x] + 1e-12);
      }
    }
  }
}

TEST(DistinctStep, TestsAsManyDrawsAsCanBeSummedOver) {
  const auto step = NewDistinctStep();
  StepPlan plan;
  const std::vector<double> distribution(20, 0.05);
  std::vector<double> target(20, 0.0);
  target[4] = 1;
  step->Plan({distribution, target, std::vector<int32_t>{0, 1, 2, 3, 4}}, plan);
  EXPECT_EQ(plan.accept, std::vector<double>(5, 0.0));  // the last is not
  step->Plan({distribution, target, std::vector<int32_t>{0, 1, 4, 3, 2}}, plan);
  EXPECT_GT(plan.accept[2], 0);
}

double TotalFlow(SingleStep& step, const Problem& problem) {
  StepPlan plan;
  const std::vector<int32_t> draws(problem.num_draws, 0);
  step.Plan({problem.distribution, problem.target, draws}, plan);
  return std::accumulate(plan.flow.begin(), plan.flow.end(), 0.0);
}

// Solves the linear program: a node for every tuple of draws with its
// probability, one for every token with its target, an edge where the tuple
// contains the token.
double MostPossible(const Problem& problem) {
  MaxFlow network;
  const int source = network.AddNode(), sink = network.AddNode();
  std::vector<int> tokens;
  for (double wanted : problem.target) {
    tokens.push_back(network.AddNode());
    network.AddEdge(tokens.back(), sink, wanted);
  }
  ForEachDraws(problem, [&](const std::vector<int32_t>& draws) {
    const int tuple = network.AddNode();
    network.AddEdge(source, tuple, Probability(problem, draws));
    for (int32_t x : draws) network.AddEdge(tuple, tokens[x], 1);
  });
  return network.Solve(source, sink);
}

TEST(GrStep, AcceptsWhatTheLinearProgramDoes) {
  const auto step = NewGrStep();
  for (size_t size : {2, 3, 4}) {
    for (int64_t num_draws : {1, 2, 3}) {
      for (const Problem& problem : Problems(size, num_draws)) {
        ASSERT_NEAR(TotalFlow(*step, problem), MostPossible(problem), 1e-9);
      }
    }
  }
}

TEST(GrStep, AcceptsMoreThanTheOthers) {
  const auto gr = NewGrStep();
  const auto rrs = NewRrsStep();
  const auto kseq = NewKseqStep();
  for (const Problem& problem : Problems(20, 3)) {
    const double most = TotalFlow(*gr, problem) + 1e-12;
    EXPECT_LE(TotalFlow(*rrs, problem), most);
    EXPECT_LE(TotalFlow(*kseq, problem), most);
  }
}

}  // namespace
}  // namespace espalier::verifier
