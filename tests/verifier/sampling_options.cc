#include "tests/verifier/sampling_options.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "common/grammar/grammar.h"
#include "gtest/gtest.h"
#include "verifier/distributions/pass_distributions.h"

namespace espalier::verifier {
namespace {

constexpr int64_t kPromptLength = 2;
const Tokens kCommitted = {1, 3, 0, kOptionRoot};
const ScriptedLanguageModel::Options kModel = {.vocab_size = kOptionVocab,
                                               .deviation = 1.0f};

// The vocabulary as text, and the texts of the grammar.
const std::vector<std::string> kText = {"x", "xy", "y", ""};
constexpr TokenId kEnd = 3;
const GrammarSpec kGrammar = {.kind = GrammarSpec::Kind::kChoice,
                              .choices = {"xx", "xxy", "xxxyy", "xxyxy"}};

// Returns whether some text of the grammar goes on with `token`.
bool GrammarAllows(const Tokens& output, TokenId token) {
  if (std::count(output.begin(), output.end(), kEnd) > 0) return token == kEnd;
  std::string text;
  for (TokenId t : output) text += kText[t];
  text += kText[token];
  return std::any_of(kGrammar.choices.begin(), kGrammar.choices.end(),
                     [&](const std::string& choice) {
                       return token == kEnd ? choice == text
                                            : absl::StartsWith(choice, text);
                     });
}

// Null: this build has no structured output.
const grammar::Backend* TestBackend() {
  static const auto backend =
      grammar::NewBackend({.tokens = kText, .end_tokens = {kEnd}});
  return backend.get();
}

// -inf where bad_words or min_tokens forbid, unless nothing would be left.
void ForbidUnlessAll(const Tokens& output, const LogitAdjustments& adjustments,
                     std::vector<double>& logits) {
  const std::vector<double> before_all = logits;
  for (const Tokens& word : adjustments.bad_words) {
    const size_t before = word.size() - 1;
    if (output.size() >= before &&
        std::equal(word.begin(), word.end() - 1, output.end() - before)) {
      logits[word.back()] = -INFINITY;
    }
  }
  for (TokenId token : adjustments.early_stops) {
    if (static_cast<int64_t>(output.size()) < adjustments.min_tokens) {
      logits[token] = -INFINITY;
    }
  }
  if (*std::max_element(logits.begin(), logits.end()) == -INFINITY) {
    logits = before_all;
  }
}

// Returns the logits after `text`, -inf where forbidden.
std::vector<double> AdjustedLogits(const Tokens& text,
                                   const LogitAdjustments& adjustments) {
  const auto raw = ScriptedLanguageModel::LogitsAfter(kModel, text);
  std::vector<double> logits(raw.begin(), raw.end());
  const Tokens output(text.begin() + kPromptLength, text.end());
  for (TokenId token = 0; token < kOptionVocab; ++token) {
    if (adjustments.grammar.any() && !GrammarAllows(output, token)) {
      logits[token] = -INFINITY;
    }
  }
  ForbidUnlessAll(output, adjustments, logits);
  for (const auto& [token, value] : adjustments.bias) logits[token] += value;
  for (TokenId token = 0; token < kOptionVocab; ++token) {
    if (std::count(text.begin(), text.end(), token) > 0) {
      logits[token] *= logits[token] > 0 ? 1 / adjustments.repetition_penalty
                                         : adjustments.repetition_penalty;
    }
    const auto uses = std::count(output.begin(), output.end(), token);
    logits[token] -= adjustments.frequency_penalty * static_cast<double>(uses);
    if (uses > 0) logits[token] -= adjustments.presence_penalty;
  }
  return logits;
}

void Normalize(std::vector<double>& p) {
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& x : p) x /= sum;
}

// Keeps the tokens that come first by `rank`, up to the mass.
void KeepMass(double mass, const std::function<double(double)>& rank,
              std::vector<double>& p) {
  if (mass >= 1) return;
  std::vector<size_t> order;
  for (size_t i = 0; i < p.size(); ++i) {
    if (p[i] > 0) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return rank(p[a]) < rank(p[b]); });
  std::vector<double> kept(p.size());
  double sum = 0;
  for (size_t i = 0; i < order.size() && sum < mass; ++i) {
    kept[order[i]] = p[order[i]];
    sum += p[order[i]];
  }
  p = kept;
  Normalize(p);
}

std::vector<double> TargetAfter(const Tokens& text,
                                const SamplingOption& option) {
  const SamplingParams& sampling = option.sampling;
  std::vector<double> p = AdjustedLogits(text, option.adjustments);
  const size_t best = std::max_element(p.begin(), p.end()) - p.begin();
  if (sampling.greedy()) {
    p.assign(kOptionVocab, 0);
    p[best] = 1;
    return p;
  }
  const double largest = p[best];
  for (double& x : p) x = std::exp((x - largest) / sampling.temperature);
  for (double& x : p) {
    if (x < sampling.min_p) x = 0;
  }
  if (sampling.top_k > 0) {
    std::vector<double> sorted = p;
    std::sort(sorted.rbegin(), sorted.rend());
    for (double& x : p) {
      if (x < sorted[sampling.top_k - 1]) x = 0;
    }
  }
  Normalize(p);
  KeepMass(
      sampling.top_p, [](double x) { return -x; }, p);
  double entropy = 0;
  for (double x : p) entropy -= x > 0 ? x * std::log(x) : 0;
  KeepMass(
      sampling.typical_p,
      [=](double x) { return std::abs(-std::log(x) - entropy); }, p);
  return p;
}

grammar::TokenMasks MasksOf(const TokenTree& tree) {
  const auto compiled = TestBackend()->Compile(kGrammar, {});
  const auto matcher = (*compiled)->NewMatcher();
  const auto output = absl::MakeConstSpan(kCommitted).subspan(kPromptLength);
  EXPECT_TRUE(matcher->Follow(output).ok());
  return *matcher->MasksOf(tree, absl::InfiniteDuration());
}

}  // namespace

void PrintTo(const SamplingOption& option, std::ostream* out) {
  *out << option.name;
}

std::vector<SamplingOption> SamplingOptionCases() {
  return {
      SamplingOption{"MinP", {.temperature = 1, .min_p = 0.4f}, {}},
      SamplingOption{"TypicalP", {.temperature = 1, .typical_p = 0.6f}, {}},
      SamplingOption{"Filters",
                     {.temperature = 1.3f,
                      .top_k = 3,
                      .top_p = 0.85f,
                      .min_p = 0.1f,
                      .typical_p = 0.7f},
                     {}},
      SamplingOption{"BadWord",
                     {.temperature = 1},
                     {.prompt_length = 2, .bad_words = {{2}}}},
      SamplingOption{
          "BadWordOfThreeTokens",
          {.temperature = 1},
          {.prompt_length = 2, .bad_words = {{0, 0, 1}, {1, 2}, {3, 3}}}},
      SamplingOption{
          "MinTokens",
          {.temperature = 1},
          {.prompt_length = 2, .min_tokens = 4, .early_stops = {0, 2}}},
      SamplingOption{"Bias",
                     {.temperature = 1},
                     {.prompt_length = 2, .bias = {{1, 2.5f}, {3, -100.0f}}}},
      SamplingOption{"Repetition",
                     {.temperature = 1},
                     {.prompt_length = 2, .repetition_penalty = 1.8f}},
      SamplingOption{"Frequency",
                     {.temperature = 1},
                     {.prompt_length = 2, .frequency_penalty = 0.9f}},
      SamplingOption{"Presence",
                     {.temperature = 1},
                     {.prompt_length = 2, .presence_penalty = -1.1f}},
      SamplingOption{"Grammar",
                     {.temperature = 1},
                     {.prompt_length = 2, .grammar = kGrammar}},
      SamplingOption{"GreedyGrammar",
                     {.temperature = 0},
                     {.prompt_length = 2, .grammar = kGrammar}},
      // The grammar's end is near, and may not be forbidden then.
      SamplingOption{"GrammarAgainstTheRest",
                     {.temperature = 1},
                     {.prompt_length = 2,
                      .grammar = kGrammar,
                      .bad_words = {{2}, {1}},
                      .min_tokens = 5,
                      .early_stops = {kEnd}}},
      SamplingOption{"GrammarAndTheRest",
                     {.temperature = 1.2f, .top_p = 0.9f, .min_p = 0.05f},
                     {.prompt_length = 2,
                      .grammar = kGrammar,
                      .bias = {{0, 1.5f}, {3, -1.0f}},
                      .repetition_penalty = 1.4f,
                      .frequency_penalty = 0.5f}},
      SamplingOption{"Greedy",
                     {.temperature = 0},
                     {.prompt_length = 2,
                      .bad_words = {{0, 1}},
                      .repetition_penalty = 0.5f,
                      .frequency_penalty = 2.0f}},
      SamplingOption{"Everything",
                     {.temperature = 0.8f,
                      .top_k = 3,
                      .top_p = 0.95f,
                      .min_p = 0.02f,
                      .typical_p = 0.9f},
                     {.prompt_length = 2,
                      .bad_words = {{0, 1}},
                      .min_tokens = 3,
                      .early_stops = {3},
                      .bias = {{2, 0.7f}},
                      .repetition_penalty = 1.2f,
                      .frequency_penalty = 0.3f,
                      .presence_penalty = 0.4f}}};
}

bool CanTest(const SamplingOption& option) {
  return !option.adjustments.grammar.any() || TestBackend() != nullptr;
}

TableModel TargetOf(const SamplingOption& option) {
  TableModel target(kOptionVocab, kOptionDepth);
  const std::function<void(Tokens)> fill = [&](const Tokens& context) {
    Tokens text = kCommitted;
    text.insert(text.end(), context.begin(), context.end());
    std::vector<double> p = TargetAfter(text, option);
    // A text that the grammar does not have is followed by nothing.
    if (std::isnan(p[0])) p = {0, 0, 0, 1};
    target.SetDistribution(context, p);
    if (static_cast<int64_t>(context.size()) == kOptionDepth) return;
    for (TokenId token = 0; token < kOptionVocab; ++token) {
      Tokens longer = context;
      longer.push_back(token);
      fill(longer);
    }
  };
  fill({});
  return target;
}

// The model holds the committed tokens but the root.
OptionPass::OptionPass(VerificationRule& rule, const SamplingOption& option)
    : rule_(rule),
      option_(option),
      model_(kModel),
      cache_(model_.NewSequence()) {
  const Tokens before(kCommitted.begin(), kCommitted.end() - 1);
  std::vector<int32_t> chain(before.size());
  std::iota(chain.begin(), chain.end(), kPrefixParent);
  const SequenceRows rows = {
      .cache = cache_, .tokens = before, .parents = chain};
  EXPECT_TRUE(model_.Forward({&rows, 1}).ok());
  std::iota(chain.begin(), chain.end(), 0);
  EXPECT_TRUE(model_.Keep(cache_, chain, {}).ok());
}

void OptionPass::Forward(const TokenTree& tree) {
  if (rows_ != nullptr && tree.tokens == tree_.tokens &&
      tree.parents == tree_.parents) {
    return;
  }
  tree_ = tree;
  const SequenceRows rows = {.cache = cache_,
                             .tokens = tree.tokens,
                             .parents = tree.parents,
                             .num_logit_rows = tree.num_nodes(),
                             .use = AnyUse{}};
  auto logits = model_.Forward({&rows, 1});
  ASSERT_TRUE(logits.ok()) << logits.status();
  rows_ = *std::move(logits);
  if (option_.adjustments.grammar.any()) masks_ = MasksOf(tree);
}

Tokens OptionPass::Emit(const TokenTree& tree, TokenSampler& sampler) {
  Forward(tree);
  const auto position = static_cast<int64_t>(kCommitted.size());
  PassDistributions distributions(
      {.tree = tree,
       .sampling = option_.sampling,
       .use = AnyUse{},
       .rows = *rows_,
       .first_position = position,
       .adjustments = &option_.adjustments,
       .committed = kCommitted,
       .masks = masks_.num_rows() > 0 ? &masks_ : nullptr},
      transform_);
  const auto accepted = rule_.Accept(tree, position, distributions, sampler);
  EXPECT_TRUE(accepted.ok()) << accepted.status();
  Tokens emitted;
  for (int32_t node : accepted->path) emitted.push_back(tree.tokens[node]);
  emitted.push_back(accepted->bonus_token);
  return emitted;
}

}  // namespace espalier::verifier
