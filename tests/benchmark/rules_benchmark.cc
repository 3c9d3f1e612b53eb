// What rules cost on one core: 62 drafted nodes, laws of 20 tokens,
// probabilities gathered. Building the tree from its slots is part of it.

#include <benchmark/benchmark.h>

#include <random>
#include <string>

#include "verifier/choosers.h"
#include "verifier/flow/flow_tree.h"
#include "verifier/lab/draft_scheme.h"
#include "verifier/lab/toy.h"
#include "verifier/verification_rules.h"

namespace espalier::verifier {
namespace {

TokenTree Drafted(const ToyModels& models, const DraftScheme& scheme) {
  std::mt19937_64 random(1);
  return DraftTree(scheme, {{&models.drafter()}},
                   [&random](absl::Span<const double> law) {
                     return std::discrete_distribution<int64_t>(
                         law.begin(), law.end())(random);
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
  ModelLaws laws(models.target(), committed, tree);
  GumbelChooser chooser(1);
  FlowTree flow_tree;
  StopLaw law;
  flow_tree.Build(tree);
  benchmark::DoNotOptimize(flow_tree.GatherTarget(laws));
  for (auto _ : state) {
    flow_tree.Build(tree);
    verifier->Verify(flow_tree, /*round=*/1, chooser, law);
    benchmark::DoNotOptimize(law.stop.data());
  }
  state.counters["nodes"] = static_cast<double>(tree.num_nodes() - 1);
}

// One draw out of a dense law of the default model's size, as for the bonus
// token, and its sum, as for every node that has children.
void Choose(benchmark::State& state) {
  std::vector<double> weights(49152);
  std::mt19937_64 random(1);
  for (double& weight : weights)
    weight = std::exp(std::normal_distribution<>(0, 3)(random));
  GumbelChooser chooser(1);
  for (auto _ : state) {
    benchmark::DoNotOptimize(chooser.Choose(1, weights));
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
