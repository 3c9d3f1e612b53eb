#ifndef ESPALIER_DRAFTER_DRAFTER_H_
#define ESPALIER_DRAFTER_DRAFTER_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/spec/messages.h"
#include "common/spec/sampling_params.h"
#include "common/spec/token_tree.h"
#include "common/spec/types.h"

namespace espalier::drafter {

// What a drafter may see of a sequence. Valid for the duration of the call.
struct SequenceView {
  SequenceId id;
  // All committed tokens, prompt included, at least one; the last is the root.
  // Only ever extended between calls, unless Forget(id) came first.
  absl::Span<const TokenId> tokens;
  // Draft for what follows `tokens` and these, which then end in the root. They
  // may come or not: nothing of them is kept. Empty unless drafts_ahead().
  absl::Span<const TokenId> guess = {};
  SamplingParams sampling;
  DraftBudget budget;  // max_nodes 0: catch up with the tokens, draft nothing
  // Of the positions from first_position on, all but the root's when nothing is
  // late or lost. What was lost stays lost: first_position may then be above 0,
  // and grow. Null if wanted_features() is empty.
  const FeatureRows* features = nullptr;
  // Takes the best tree so far, within the budget; it replaces the one before.
  // A round that cannot wait uses it, so call it before more work that takes
  // long. Null: nobody would see it.
  std::function<void(TokenTree)> report = nullptr;

  TokenId root() const { return guess.empty() ? tokens.back() : guess.back(); }
};

// A drafting algorithm: prompt lookup, a draft head, a small model. Called from
// one thread, never concurrently. What it answers can only make decoding
// faster or slower, never wrong.
class Drafter {
 public:
  virtual ~Drafter() = default;

  // The hidden states of the target that it drafts from. Always the same.
  virtual FeatureContract wanted_features() const { return {}; }

  // Whether views may have a guess. Always the same.
  virtual bool drafts_ahead() const { return false; }

  // One tree for each view, in order, each within its budget. Node 0 is the
  // view's root. An empty prediction is TokenTree::RootOnly.
  virtual absl::StatusOr<std::vector<TokenTree>> Draft(
      absl::Span<const SequenceView> batch) = 0;

  // Drops all state of the sequence. Unknown ids are ignored.
  virtual void Forget(SequenceId id) = 0;
};

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_DRAFTER_H_
