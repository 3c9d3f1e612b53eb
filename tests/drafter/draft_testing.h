// Helpers of several drafter tests.
#ifndef ESPALIER_TESTS_DRAFTER_DRAFT_TESTING_H_
#define ESPALIER_TESTS_DRAFTER_DRAFT_TESTING_H_

#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/speculation/gumbel_noise.h"
#include "drafter/drafters.h"
#include "drafter/engine/drafter.h"
#include "drafter/trees/gumbel_coupling.h"
#include "gtest/gtest.h"

namespace espalier::drafter {

inline std::unique_ptr<Drafter> MakeDrafter(const std::string& type,
                                            const DrafterOptions& options) {
  DrafterRegistry registry("drafter");
  RegisterDrafters(registry);
  auto drafter = registry.Create(type, options);
  if (!drafter.ok()) ADD_FAILURE() << drafter.status();
  ESPALIER_CHECK(drafter.ok());
  return *std::move(drafter);
}

inline std::unique_ptr<Drafter> MakeDrafter(
    const std::string& type, const std::map<std::string, std::string>& options,
    int64_t vocab_size) {
  return MakeDrafter(
      type, DrafterOptions{.options = options, .vocab_size = vocab_size});
}

inline TokenTree DraftOne(Drafter& drafter, const SequenceView& view) {
  auto trees = drafter.Draft({&view, 1});
  ESPALIER_CHECK(trees.ok() && trees->size() == 1);
  return std::move((*trees)[0]);
}

// A view before its features are in the drafter's store.
struct ViewAndFeatures {
  SequenceView view;
  const FeatureRows* rows = nullptr;  // null: none
};

// Puts the features in place of those that the drafter has of the sequence.
inline SequenceView Feed(Drafter& drafter, const ViewAndFeatures& asked) {
  SequenceView view = asked.view;
  FeatureStore* const store = drafter.features();
  if (store == nullptr) return view;
  store->Cut(view.id, {});
  if (asked.rows == nullptr || asked.rows->empty()) return view;
  store->Append(view.id, asked.rows->first_position, asked.rows->data);
  view.features = {asked.rows->first_position, asked.rows->end_position()};
  return view;
}

inline std::vector<TokenTree> DraftAll(
    Drafter& drafter, const std::vector<ViewAndFeatures>& asked) {
  std::vector<SequenceView> views;
  for (const ViewAndFeatures& one : asked) views.push_back(Feed(drafter, one));
  auto trees = drafter.Draft(views);
  if (!trees.ok()) ADD_FAILURE() << trees.status();
  ESPALIER_CHECK(trees.ok() && trees->size() == views.size());
  return *std::move(trees);
}

inline TokenTree DraftOne(Drafter& drafter, const ViewAndFeatures& asked) {
  return DraftAll(drafter, {asked})[0];
}

// Returns the tokens of each node's path below the root, by node.
inline std::vector<std::vector<TokenId>> Paths(const TokenTree& tree) {
  std::vector<std::vector<TokenId>> paths(tree.num_nodes());
  for (int64_t i = 1; i < tree.num_nodes(); ++i) {
    paths[i] = paths[tree.parents[i]];
    paths[i].push_back(tree.tokens[i]);
  }
  return paths;
}

// Returns the children of the root, with their log_prob.
inline std::map<TokenId, double> RootDistribution(const TokenTree& tree) {
  std::map<TokenId, double> distribution;
  for (int64_t i = 1; i < tree.num_nodes(); ++i) {
    if (tree.parents[i] == 0) distribution[tree.tokens[i]] = tree.log_probs[i];
  }
  return distribution;
}

inline std::vector<TokenId> RandomTokens(std::mt19937_64& random, int64_t count,
                                         int64_t vocab_size) {
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) {
    token = static_cast<TokenId>(random() % vocab_size);
  }
  return tokens;
}

// Returns the token that the target emits at `position`: argmax log q / T + g;
// greedy: argmax q.
inline TokenId EmittedToken(const SamplingParams& sampling, int64_t position,
                            const std::vector<Candidate>& distribution) {
  const GumbelNoise noise(sampling.seed, position);
  TokenId best = -1;
  double best_score = 0;
  for (const Candidate& candidate : distribution) {
    const double score = sampling.greedy()
                             ? candidate.log_prob
                             : candidate.log_prob / sampling.temperature +
                                   noise(candidate.token);
    if (best < 0 || score > best_score) {
      best = candidate.token;
      best_score = score;
    }
  }
  return best;
}

// Returns how many tokens of a tree over `tokens` the coupled walk accepts, if
// `target(context)` is the target's distribution at temperature 1.
template <typename Target>
int64_t AcceptedLength(const TokenTree& tree, std::vector<TokenId> tokens,
                       const SamplingParams& sampling, const Target& target) {
  int32_t node = 0;
  for (int64_t accepted = 0;; ++accepted) {
    const TokenId emitted = EmittedToken(
        sampling, static_cast<int64_t>(tokens.size()), target(tokens));
    int32_t next = 0;
    for (int32_t i = 1; i < tree.num_nodes(); ++i) {
      if (tree.parents[i] == node && tree.tokens[i] == emitted) next = i;
    }
    if (next == 0) return accepted;
    node = next;
    tokens.push_back(emitted);
  }
}

}  // namespace espalier::drafter

#endif  // ESPALIER_TESTS_DRAFTER_DRAFT_TESTING_H_
