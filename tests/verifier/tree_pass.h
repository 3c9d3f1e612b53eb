// A pass of a scripted target over a tree, for tests of its outputs.
#ifndef ESPALIER_TESTS_VERIFIER_TREE_PASS_H_
#define ESPALIER_TESTS_VERIFIER_TREE_PASS_H_

#include "common/model/language_model.h"
#include "common/speculation/sampling_params.h"
#include "common/speculation/token_tree.h"
#include "gtest/gtest.h"
#include "tests/testing/scripted_language_model.h"
#include "verifier/distributions/pass_distributions.h"

namespace espalier::verifier {

class TreePass {
 public:
  explicit TreePass(const ScriptedLanguageModel::Options& options)
      : model_(options) {}

  ScriptedLanguageModel& model() { return model_; }

  // Calls see(distributions) with the distributions of the tree after a text of
  // one token, from a pass with `use`.
  template <typename See>
  void Run(const TokenTree& tree, const SamplingParams& sampling,
           const LogitUse& use, See see) {
    const SequenceRows rows = {.cache = cache_,
                               .tokens = tree.tokens,
                               .parents = tree.parents,
                               .num_logit_rows = tree.num_nodes(),
                               .use = use};
    const auto logits = model_.Forward({&rows, 1});
    ASSERT_TRUE(logits.ok()) << logits.status();
    PassDistributions distributions({.tree = tree,
                                     .sampling = sampling,
                                     .use = use,
                                     .rows = **logits,
                                     .first_position = 1},
                                    transform_);
    see(distributions);
  }

 private:
  ScriptedLanguageModel model_;
  const CacheId cache_ = model_.NewSequence();
  DistributionTransform transform_;
};

}  // namespace espalier::verifier

#endif  // ESPALIER_TESTS_VERIFIER_TREE_PASS_H_
