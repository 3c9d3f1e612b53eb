// The cost of rules on one core: 62 drafted nodes, distributions of 20 tokens,
// probabilities gathered. Building the FlowTree from the tree's samples is
// included.

#include <benchmark/benchmark.h>

#include <random>
#include <string>

#include "lab/draft_scheme.h"
#include "lab/toy.h"
#include "verifier/flow/flow_tree.h"
#include "verifier/flow/tree_verifiers.h"
#include "verifier/rules/token_samplers.h"

namespace espalier::verifier {
namespace {

TokenTree Drafted(const ToyModels& models, const DraftScheme& scheme) {
  std::mt19937_64 random(1);
  return DraftTree(scheme, {{&models.drafter()}},
                   [&random](absl::Span<const double> distribution) {
                     return std::discrete_distribution<int64_t>(
                         distribution.begin(), distribution.end())(random);
                   });
}

void Decide(benchmark::State& state, const std::string& rule,
            const DraftScheme& scheme) {
  Registry<TreeVerifier> registry("rule");
  RegisterTreeVerifiers(registry);
  const auto verifier = *registry.Create(rule);
  const ToyModels models({.vocab = 20}, /*seed=*/1);
  const TokenTree tree = Drafted(models, scheme);
  const Tokens committed;
  ModelDistributions distributions(models.target(), committed, tree);
  GumbelSampler sampler(1);
  FlowTree flow_tree;
  StopDistribution distribution;
  flow_tree.Build(tree);
  benchmark::DoNotOptimize(flow_tree.GatherTarget(distributions));
  for (auto _ : state) {
    flow_tree.Build(tree);
    verifier->Verify(flow_tree, /*round=*/1, sampler, distribution);
    benchmark::DoNotOptimize(distribution.stop.data());
  }
  state.counters["nodes"] = static_cast<double>(tree.num_nodes() - 1);
}

// One draw out of a dense distribution of the default model's size, as for the
// bonus token, and its sum, as for every node that has children.
void Choose(benchmark::State& state) {
  std::vector<double> weights(49152);
  std::mt19937_64 random(1);
  for (double& weight : weights)
    weight = std::exp(std::normal_distribution<>(0, 3)(random));
  GumbelSampler sampler(1);
  for (auto _ : state) {
    benchmark::DoNotOptimize(sampler.SampleIndex(1, weights));
  }
}
BENCHMARK(Choose);

void RegisterRules() {
  Registry<TreeVerifier> registry("rule");
  RegisterTreeVerifiers(registry);
  const Shape shape = Branching({2, 2, 2, 2, 2});
  DraftScheme complete = AllSampled(shape);
  complete.merge_duplicates = false;
  const DraftScheme chains = AllSampled(MultiChain(4, 15));
  for (const std::string& rule : registry.Names()) {
    const bool is_for_chains = rule == "gbv" || rule == "bv";
    benchmark::RegisterBenchmark(rule.c_str(), Decide, rule,
                                 is_for_chains ? chains : complete);
  }
  benchmark::RegisterBenchmark("lvseq-sps, greedy+1", Decide, "lvseq-sps",
                               GreedyPlusOne(shape));
}

}  // namespace
}  // namespace espalier::verifier

int main(int argc, char** argv) {
  espalier::verifier::RegisterRules();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
