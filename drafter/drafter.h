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
  // Predicted tokens after `tokens`; the last of them is then the root. They
  // may turn out wrong, so nothing computed for them is kept. Empty unless
  // supports_lookahead().
  absl::Span<const TokenId> lookahead = {};
  SamplingParams sampling;
  DraftBudget budget;  // max_nodes 0: process the tokens, draft nothing
  // The target's features from first_position on: for all positions but the
  // root's when nothing is late or lost. Lost features are not sent again:
  // first_position may then be above 0, and grow. Null if wanted_features() is
  // empty.
  const FeatureRows* features = nullptr;
  // Reports the best tree so far, within the budget; it replaces the previous
  // report. A round that cannot wait uses it, so call it before each long step.
  // Null: reports are not wanted.
  std::function<void(TokenTree)> report = nullptr;

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

  // The hidden states of the target that it drafts from. Constant.
  virtual FeatureContract wanted_features() const { return {}; }

  // Whether views may have a lookahead. Constant.
  virtual bool supports_lookahead() const { return false; }

  // One tree for each view, in order, each within its budget. Node 0 is the
  // view's root. A drafter without a prediction returns TokenTree::RootOnly.
  virtual absl::StatusOr<std::vector<TokenTree>> Draft(
      absl::Span<const SequenceView> batch) = 0;

  // Drops all state of the sequence. Unknown ids are ignored.
  virtual void Forget(SequenceId id) = 0;
};

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_DRAFTER_H_
