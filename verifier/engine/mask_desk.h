#ifndef ESPALIER_VERIFIER_ENGINE_MASK_DESK_H_
#define ESPALIER_VERIFIER_ENGINE_MASK_DESK_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/types/span.h"
#include "common/base/executor.h"
#include "common/speculation/types.h"
#include "verifier/engine/session.h"
#include "verifier/engine/tree_masker.h"

namespace espalier::verifier {

// Requests with a grammar, which wait for their masks before they are admitted.
// The latest request of a sequence replaces an earlier one. Used on the
// engine's executor, which must outlive the masker's answers.
class MaskDesk {
 public:
  using OnMasked = absl::AnyInvocable<void(std::unique_ptr<Job>)>;

  // masker: null: there are no grammars. on_masked: gets each request back with
  // its masks, on the executor.
  MaskDesk(std::shared_ptr<TreeMasker> masker, Executor& executor,
           OnMasked on_masked);

  bool has_grammars() const { return masker_ != nullptr; }

  // Asks for the masks of the request's tree. held: the sequence's committed
  // tokens. The request is answered here if there will be none: CANCELLED where
  // the sequence was forgotten or asked for again; errors of TreeMasker::Mask.
  // REQUIRES: has_grammars(); the request was checked, and its rule is chosen.
  void Ask(std::unique_ptr<Job> job, absl::Span<const TokenId> held);

  // The sequence was ended.
  void Forget(SequenceId sequence);
  // Answers everything. Thread-safe.
  void Stop();

 private:
  void OnMasks(std::unique_ptr<Job> job, uint64_t ticket,
               absl::StatusOr<MaskedTree> masked);

  const std::shared_ptr<TreeMasker> masker_;
  Executor& executor_;
  OnMasked on_masked_;
  uint64_t next_ticket_ = 1;
  // The latest request of each sequence that waits.
  absl::flat_hash_map<SequenceId, uint64_t> tickets_;
};

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_ENGINE_MASK_DESK_H_
