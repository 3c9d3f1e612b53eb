#ifndef ESPALIER_VERIFIER_ENGINE_TARGET_PASS_H_
#define ESPALIER_VERIFIER_ENGINE_TARGET_PASS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/executor.h"
#include "common/model/language_model.h"
#include "common/speculation/messages.h"
#include "verifier/distributions/distribution_transform.h"
#include "verifier/distributions/pass_distributions.h"
#include "verifier/flow/rule_comparison.h"
#include "verifier/rules/verification_rule.h"

namespace espalier::verifier {

// One forward pass of the target over rows of several sequences; then, for each
// sequence, verification of its tree by its rule and compaction of the accepted
// path. Borrows the model, which it shares with the engine; used on the
// engine's executor.
class TargetPass {
 public:
  // One sequence's rows: committed tokens that are not cached yet, then the
  // tree, if its root follows them. At least one of the two.
  struct Part {
    CacheId cache = 0;
    absl::Span<const TokenId> prompt = {};  // directly after the cached tokens
    const TokenTree* tree = nullptr;
    const SamplingParams* sampling = nullptr;       // of the tree
    VerificationRule* rule = nullptr;               // of the tree
    const LogitAdjustments* adjustments = nullptr;  // of the tree; null: none
    absl::Span<const TokenId> committed = {};  // all, up to the tree's root
    LogprobRequest logprobs = {};
    // Positions that are not there yet are appended when the part is committed.
    // Null: `logprobs` wants none of the prompt.
    LogprobRows* prompt_logprobs = nullptr;
    // Gets the ranks of the tree's rows, and of the last `ranked_prompt_rows`
    // of the prompt, `ranks->top` tokens each, when the part is committed.
    // Null: none, as for a part with masks.
    TokenRanks* ranks = nullptr;
    int64_t ranked_prompt_rows = 0;
    // [nodes] what the adjustments' grammar allows; null: there is no grammar.
    const grammar::TokenMasks* masks = nullptr;
    // Is true if Compare will be called. It needs the gathered values of a rule
    // that reads distributions; for a rule that only draws tokens, the logits
    // themselves.
    bool compared = false;
    // Hidden states of the committed rows are appended to `features`, unless
    // that is null, and left in the model's ring for each contract of `stored`,
    // which gets the segments. REQUIRES: `features` does not end before the
    // part's first position.
    absl::Span<const int32_t> taps = {};
    FeatureRows* features = nullptr;
    absl::Span<StoredContract> stored = {};

    bool is_adjusted() const {
      return adjustments != nullptr && adjustments->any();
    }
    int64_t prompt_rows() const { return static_cast<int64_t>(prompt.size()); }
    // Returns the last rows of the prompt, whose logits are wanted.
    int64_t prompt_logit_rows() const {
      return prompt_logprobs != nullptr ? prompt_rows() : ranked_prompt_rows;
    }
    int64_t rows() const {
      return prompt_rows() + (tree != nullptr ? tree->num_nodes() : 0);
    }
  };

  // The results of a pass. Valid for one Commit per part, before the next pass.
  struct Output {
    std::vector<Part> parts;
    std::vector<int64_t> first_logit_row = {};  // [parts] of the tree's root
    std::vector<LogitUse> uses = {};         // [parts] that the model was told
    std::unique_ptr<LogitRows> logits = {};  // of all trees
    absl::Time begin = {};
    absl::Time end = {};
    int64_t experts = 0;  // that the pass read (LanguageModel::experts_read)

    int64_t rows() const;
    // Returns whether every row has all its logits: prompt rows, and rows of a
    // grammar, cost less.
    bool is_whole_trees() const;
  };

  // `clock` times the stages.
  TargetPass(LanguageModel& model, const Executor& clock)
      : model_(model), clock_(clock) {}

  // Runs one pass over all parts, each of a different sequence. Changes no
  // sequence, whatever the outcome. RESOURCE_EXHAUSTED: the K/V pool is full.
  // UNAVAILABLE, here and below: the model's device is lost. All other errors
  // are INTERNAL, as requests were checked before. An error does not tell which
  // part caused it.
  absl::StatusOr<Output> Forward(std::vector<Part> parts);

  // Caches the prompt of a part without a tree. Errors here and below concern
  // this part alone and leave its cache unchanged.
  absl::Status CommitPrompt(const Output& output, size_t part);

  // Returns what the rules would accept of a part's tree. REQUIRES: it is
  // `compared`, claims distributions, and is not committed yet.
  absl::StatusOr<std::vector<RuleLength>> Compare(const Output& output,
                                                  size_t part,
                                                  RuleComparison& comparison);

  // Caches prompt, root and accepted path. Fills path, tokens, near_ties,
  // logprobs and the timings of the accept and commit stages.
  absl::StatusOr<VerifyResult> CommitTree(const Output& output, size_t part);

 private:
  // Position of the first token that a part's round emits. REQUIRES: the part
  // is not committed yet.
  int64_t FirstPosition(const Part& part) const;

  // REQUIRES: the part has a tree and is not committed yet.
  PassDistributions DistributionsOf(const Output& output, size_t part);

  // Commits rows of a part: the path to one of its leaves.
  absl::Status Keep(const Output& output, size_t part,
                    absl::Span<const int32_t> rows);

  // Return the log-probabilities of the emitted tokens, and of the committed
  // ones after the part's prompt rows.
  absl::StatusOr<LogprobRows> EmittedLogprobs(const Output& output, size_t part,
                                              const VerifyResult& result) const;
  absl::StatusOr<LogprobRows> PromptLogprobs(const Output& output,
                                             size_t part) const;
  // REQUIRES: the part is not committed yet.
  void AddRanks(const Output& output, size_t part) const;

  LanguageModel& model_;
  const Executor& clock_;
  DistributionTransform transform_;
};

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_ENGINE_TARGET_PASS_H_
