#ifndef ESPALIER_DRAFTER_ENGINE_DRAFTER_H_
#define ESPALIER_DRAFTER_ENGINE_DRAFTER_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/speculation/grammar_spec.h"
#include "common/speculation/messages.h"
#include "common/speculation/sampling_params.h"
#include "common/speculation/token_ranks.h"
#include "common/speculation/token_tree.h"
#include "common/speculation/types.h"
#include "drafter/engine/feature_store.h"

namespace espalier::drafter {

// Holds what a drafter may see of a sequence. Valid for the duration of the
// call.
struct SequenceView {
  SequenceId id;
  // All committed tokens, prompt included, at least one; the last is the root.
  // Only ever extended between calls, unless Forget(id) came first.
  absl::Span<const TokenId> tokens;
  // Predicted tokens after `tokens`; the last of them is then the root. They
  // may turn out wrong, so nothing computed for them is kept. Empty unless
  // supports_lookahead().
  absl::Span<const TokenId> lookahead = {};
  SamplingParams sampling;
  GrammarSpec grammar = {};   // only for drafters that need it
  int64_t prompt_length = 0;  // of `tokens`; 0: not known
  DraftBudget budget;         // max_nodes 0: process the tokens, draft nothing
  // The positions whose features features() holds: all but the root's when
  // nothing is late or lost. Lost features are not sent again: `begin` may then
  // be above 0, and grow.
  FeatureRange features;
  // Reports the best tree so far, within the budget; it replaces the previous
  // report. A round that cannot wait uses it, so call it before each long step.
  // Null: reports are not wanted.
  std::function<void(TokenTree)> report = nullptr;
  // Tells that a level of a tree is done, so that levels are timed. Null: not
  // wanted.
  std::function<void()> level_done = nullptr;
  // Results for the text may serve other sequences of the same salt.
  absl::string_view cache_salt = {};
  // Rows that the target computed since the last call, if ranks() wants them;
  // some may be missing, or have been there before. Null: none.
  const TokenRanks* ranks = nullptr;

  TokenId root() const {
    return lookahead.empty() ? tokens.back() : lookahead.back();
  }
};

// A drafting algorithm: prompt lookup, a draft head, a small model. Called from
// one thread, never concurrently. Its trees can only make decoding faster or
// slower, never wrong.
class Drafter {
 public:
  virtual ~Drafter() = default;

  // Returns the store of the target's hidden states that it drafts from; null:
  // it wants none. Constant.
  virtual FeatureStore* features() { return nullptr; }

  // Returns the rows of the target that it learns from. Constant.
  virtual RankNeed ranks() const { return {}; }

  // Returns whether views may have a lookahead. Constant.
  virtual bool supports_lookahead() const { return false; }

  // Returns whether it drafts only by a grammar. Constant.
  virtual bool needs_grammar() const { return false; }

  // Returns whether a call takes microseconds once the text is known, so that
  // another thread would cost more than it saves. Constant.
  virtual bool is_quick() const { return false; }

  // Returns one tree for each view, in order, each within its budget. Node 0 is
  // the view's root. A drafter without a prediction returns
  // TokenTree::RootOnly.
  virtual absl::StatusOr<std::vector<TokenTree>> Draft(
      absl::Span<const SequenceView> batch) = 0;

  // Drops all state of the sequence. Unknown ids are ignored.
  virtual void Forget(SequenceId id) = 0;
};

// No taps: it wants none.
inline FeatureContract WantedFeatures(Drafter& drafter) {
  FeatureStore* const store = drafter.features();
  return store == nullptr ? FeatureContract() : store->contract();
}

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_ENGINE_DRAFTER_H_
