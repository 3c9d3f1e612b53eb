// What a tree costs to build from 15 positions, by its nodes and by how sharp
// the drafter's distributions are.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "drafter/dflash/ddtree.h"

namespace espalier::drafter {
namespace {

constexpr int kPositions = 15;
constexpr int kWidth = 64;

std::vector<std::vector<Candidate>> Marginals(double sharpness) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal(0, sharpness);
  std::vector<std::vector<Candidate>> marginals(kPositions);
  for (auto& list : marginals) {
    double sum = 0;
    for (int x = 0; x < kWidth; ++x) {
      list.push_back({x, normal(random)});
      sum += std::exp(list.back().log_prob);
    }
    for (Candidate& candidate : list) candidate.log_prob -= std::log(sum);
    std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) {
      return a.log_prob > b.log_prob;
    });
  }
  return marginals;
}

void Build(benchmark::State& state, double sharpness) {
  const auto marginals = Marginals(sharpness);
  const DraftBudget budget = {.max_nodes = state.range(0), .max_depth = 16};
  for (auto _ : state) {
    benchmark::DoNotOptimize(BuildDdtree(0, marginals, budget));
  }
}
BENCHMARK_CAPTURE(Build, flat, 0.1)->RangeMultiplier(4)->Range(16, 1024);
BENCHMARK_CAPTURE(Build, sharp, 3.0)->RangeMultiplier(4)->Range(16, 1024);
// Nothing but ties, so that every comparison walks up to the root.
BENCHMARK_CAPTURE(Build, ties, 0.0)->RangeMultiplier(4)->Range(16, 1024);

}  // namespace
}  // namespace espalier::drafter

BENCHMARK_MAIN();
