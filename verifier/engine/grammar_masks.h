#ifndef ESPALIER_VERIFIER_ENGINE_GRAMMAR_MASKS_H_
#define ESPALIER_VERIFIER_ENGINE_GRAMMAR_MASKS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/executor.h"
#include "common/base/mutex.h"
#include "common/grammar/grammar.h"
#include "common/grammar/grammar_compiler.h"
#include "common/speculation/grammar_spec.h"
#include "common/speculation/types.h"
#include "verifier/engine/tree_masker.h"

namespace espalier::verifier {

// A TreeMasker on a thread of its own, so that the engine goes on with other
// sequences meanwhile. Keeps, for each sequence, its place in its grammar; this
// is a function of the output, so nothing is lost with it.
class GrammarMasks final : public TreeMasker {
 public:
  // The time that a tree may take before it is cut to its root.
  static constexpr absl::Duration kTreeLimit = absl::Milliseconds(20);

  // `executor`: where places are moved and masks computed.
  GrammarMasks(std::unique_ptr<grammar::GrammarCompiler> compiler,
               std::unique_ptr<Executor> executor);
  ~GrammarMasks() override;

  void Mask(Request request, Done<MaskedTree> done) override;
  void Forget(SequenceId sequence) override;
  void Stop() override;

 private:
  struct Place {
    GrammarSpec grammar;
    std::unique_ptr<grammar::Matcher> matcher;
  };

  // Makes the masks. Runs on the executor.
  absl::StatusOr<MaskedTree> Masked(Request request,
                                    const grammar::Grammar& grammar);

  Mutex mutex_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::atomic<bool> stops_ = false;                // what the executor does
  absl::flat_hash_map<SequenceId, Place> places_;  // on the executor
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<grammar::GrammarCompiler> compiler_;
};

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_ENGINE_GRAMMAR_MASKS_H_
