#include "tests/verifier/flow/flow_cases.h"

#include <algorithm>
#include <random>
#include <utility>

#include "common/base/check.h"
#include "tests/verifier/random_model.h"
#include "verifier/rules/token_samplers.h"
#include "verifier/rules/verification_rules.h"

namespace espalier::verifier {
namespace {

using Kind = DraftStep::Kind;

DraftScheme WithDuplicates(DraftScheme scheme) {
  scheme.merge_duplicates = false;
  return scheme;
}

DraftScheme WithEndToken(DraftScheme scheme, TokenId token) {
  scheme.end_token = token;
  return scheme;
}

// Odd steps are the second drafter's.
DraftScheme ByTwo(DraftScheme scheme) {
  for (size_t i = 0; i < scheme.steps.size(); ++i) {
    scheme.steps[i].drafter = static_cast<int32_t>(i % 2);
  }
  return scheme;
}

// Under the root a draw of each drafter, the likeliest token of one, and a
// second draw; below the first draw one child of each kind.
DraftScheme Mixed() {
  return {.steps = {{.drafter = 1},
                    {.drafter = 0},
                    {.drafter = 0, .kind = Kind::kTop},
                    {.drafter = 1},
                    {.parent = 1, .drafter = 0},
                    {.parent = 1, .drafter = 1, .kind = Kind::kTop},
                    {.parent = 3, .drafter = 1}}};
}

// Two draws without replacement of each drafter under the root, the likeliest
// token of one, and below the first two draws two more.
DraftScheme MixedDistinct() {
  return {.steps = {{.drafter = 0, .kind = Kind::kDistinct},
                    {.drafter = 1, .kind = Kind::kDistinct},
                    {.drafter = 1, .kind = Kind::kTop},
                    {.drafter = 0, .kind = Kind::kDistinct},
                    {.drafter = 1, .kind = Kind::kSampled},
                    {.parent = 1, .drafter = 0, .kind = Kind::kDistinct},
                    {.parent = 2, .drafter = 1, .kind = Kind::kDistinct}}};
}

// Three drafts side by side: two chains and the likeliest tokens.
DraftScheme ThreeDrafts() {
  return {
      .steps = {{.drafter = 0},
                {.drafter = 1},
                {.drafter = 1, .kind = Kind::kTop},
                {.parent = 1, .drafter = 0},
                {.parent = 2, .drafter = 1},
                {.parent = 3, .drafter = 1, .kind = Kind::kTop},
                {.parent = 3, .drafter = 1, .kind = Kind::kTop, .rank = 1}}};
}

// exp(noise) weights around those of a model.
TableModel Perturbed(const TableModel& model, int64_t depth, double scale,
                     std::mt19937_64& random) {
  std::normal_distribution<double> noise(0, scale);
  TableModel perturbed(model.vocab(), depth);
  std::vector<Tokens> contexts = {{}};
  for (size_t i = 0; i < contexts.size(); ++i) {
    const Tokens context = contexts[i];
    const auto distribution = model.Distribution(context);
    std::vector<double> weights(distribution.begin(), distribution.end());
    for (double& weight : weights) weight *= std::exp(noise(random));
    perturbed.SetDistribution(context, weights);
    if (static_cast<int64_t>(context.size()) == depth) continue;
    for (TokenId token = 0; token < model.vocab(); ++token) {
      contexts.push_back(context);
      contexts.back().push_back(token);
    }
  }
  return perturbed;
}

// Returns all mass on one token, at every context.
TableModel Stubborn(int64_t vocab, int64_t depth, TokenId token) {
  TableModel model(vocab, depth);
  std::vector<double> weights(vocab, 0.0);
  weights[token] = 1;
  std::vector<Tokens> contexts = {{}};
  for (size_t i = 0; i < contexts.size(); ++i) {
    const Tokens context = contexts[i];
    model.SetDistribution(context, weights);
    if (static_cast<int64_t>(context.size()) == depth) continue;
    for (TokenId next = 0; next < vocab; ++next) {
      contexts.push_back(context);
      contexts.back().push_back(next);
    }
  }
  return model;
}

std::vector<const SequenceModel*> DraftersOf(const Models& models) {
  std::vector<const SequenceModel*> drafters;
  for (const TableModel& drafter : models.drafters) {
    drafters.push_back(&drafter);
  }
  return drafters;
}

}  // namespace

void PrintTo(const SchemeCase& scheme_case, std::ostream* out) {
  *out << scheme_case.name;
}

std::vector<SchemeCase> SchemeCases() {
  const Shape chain = MultiChain(1, 3);
  const Shape chains = MultiChain(2, 3);
  const Shape tapered = Tapered(2, 2);
  const Shape complete = Branching({2, 2});
  const Shape bush = Branching({3});
  const Shape wide = Branching({3, 1});
  return {
      {"SampledChain", 3, 3, AllSampled(chain)},
      {"SampledChains", 2, 3, AllSampled(chains)},
      {"SampledChainsApart", 2, 3, WithDuplicates(AllSampled(chains))},
      {"SampledChainsOfThree", 3, 2, AllSampled(MultiChain(2, 2))},
      {"SampledTapered", 3, 2, AllSampled(tapered)},
      {"SampledTaperedApart", 3, 2, WithDuplicates(AllSampled(tapered))},
      {"SampledComplete", 3, 2, AllSampled(complete)},
      {"SampledCompleteApart", 3, 2, WithDuplicates(AllSampled(complete))},
      {"SampledBush", 3, 1, AllSampled(bush)},
      {"SampledBushOfFour", 4, 1, AllSampled(bush)},
      {"SampledWide", 2, 2, AllSampled(wide)},
      {"SampledDeep", 2, 3, AllSampled(Branching({2, 1, 2}))},
      {"SampledWithEnd", 3, 2, WithEndToken(AllSampled(complete), 1)},
      {"TopComplete", 3, 2, AllTop(complete)},
      {"GreedyPlusOne", 3, 2, GreedyPlusOne(complete)},
      {"GreedyPlusOneWide", 4, 2, GreedyPlusOne(Branching({3, 2}))},
      {"GreedyPlusOneDeep", 2, 3, GreedyPlusOne(Branching({2, 2, 1}))},
      {"Distinct", 3, 2, WithoutReplacement(complete)},
      {"DistinctBush", 4, 1, WithoutReplacement(bush)},
      {"DistinctWide", 3, 2, WithoutReplacement(wide)},
      {"DistinctDeep", 2, 3, WithoutReplacement(Branching({2, 1, 2}))},
      {"DistinctWithEnd", 3, 2, WithEndToken(WithoutReplacement(complete), 1)},
      {"DistinctByTwo", 3, 2, ByTwo(WithoutReplacement(complete))},
      {"DistinctByTwoApart", 3, 2,
       WithDuplicates(ByTwo(WithoutReplacement(wide)))},
      {"MixedDistinct", 3, 2, MixedDistinct()},
      {"MixedDistinctApart", 3, 2, WithDuplicates(MixedDistinct())},
      {"TwoDrafters", 3, 2, ByTwo(AllSampled(MultiChain(2, 2)))},
      {"TwoDraftersApart", 3, 2, WithDuplicates(ByTwo(AllSampled(complete)))},
      {"TwoDraftersComplete", 3, 2, ByTwo(AllSampled(complete))},
      {"Mixed", 3, 2, Mixed()},
      {"MixedApart", 3, 2, WithDuplicates(Mixed())},
      {"ThreeDrafts", 3, 2, ThreeDrafts()},
  };
}

std::vector<Models> ModelCases(int64_t vocab, int64_t depth) {
  std::mt19937_64 random(vocab * 100 + depth);
  const auto any = [&](double zeros) {
    return RandomModel(vocab, depth, zeros, random);
  };
  const TableModel base = any(0);
  std::vector<Models> cases = {
      {"unlike", any(0), {any(0), any(0)}},
      {"alike",
       base,
       {Perturbed(base, depth, 0.3, random),
        Perturbed(base, depth, 0.3, random)}},
      {"with zeros", any(0.3), {any(0.3), any(0.3)}},
      {"equal", base, {base, base}},
      {"one token", Stubborn(vocab, depth, 0), {any(0), any(0.3)}},
      {"without a common token",
       Stubborn(vocab, depth, 0),
       {Stubborn(vocab, depth, 1), Stubborn(vocab, depth, 1)}},
  };
  return cases;
}

void ForEachDraftTree(
    const SchemeCase& scheme_case,
    absl::FunctionRef<void(const Models&, uint64_t seed, const TokenTree&)>
        see) {
  for (const Models& models :
       ModelCases(scheme_case.vocab, scheme_case.depth)) {
    const auto drafters = DraftersOf(models);
    for (uint64_t seed = 0; seed < 20; ++seed) {
      // Not the noise that a rule with this seed draws from.
      GumbelSampler drafts(seed + 1000);
      see(models, seed,
          DraftTree(scheme_case.scheme, drafters,
                    [&drafts](absl::Span<const double> distribution) {
                      return drafts.SampleIndex(0, distribution);
                    }));
    }
  }
}

ExactDistribution DistributionOfRule(VerificationRule& rule,
                                     const Models& models,
                                     const SchemeCase& scheme_case) {
  const auto drafters = DraftersOf(models);
  const auto draft = [&](ChoiceTree& choices) {
    return DraftTree(scheme_case.scheme, drafters,
                     [&](absl::Span<const double> distribution) {
                       return choices.Choose(distribution);
                     });
  };
  return EnumerateDistribution(models.target, scheme_case.depth + 1,
                               RuleRound(rule, models.target, draft));
}

std::vector<std::string> AllRules() {
  Registry<VerificationRule> registry("rule");
  RegisterVerificationRules(registry);
  return registry.Names();
}

std::unique_ptr<VerificationRule> MakeRule(const std::string& name) {
  Registry<VerificationRule> registry("rule");
  RegisterVerificationRules(registry);
  auto rule = registry.Create(name);
  ESPALIER_CHECK(rule.ok());
  return *std::move(rule);
}

std::string TestName(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

}  // namespace espalier::verifier
