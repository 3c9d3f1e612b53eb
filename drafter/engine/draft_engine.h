#ifndef ESPALIER_DRAFTER_ENGINE_DRAFT_ENGINE_H_
#define ESPALIER_DRAFTER_ENGINE_DRAFT_ENGINE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/executor.h"
#include "common/base/mutex.h"
#include "common/speculation/endpoints.h"
#include "drafter/engine/drafter.h"
#include "drafter/engine/drafter_metrics.h"
#include "drafter/engine/sequence_store.h"

namespace espalier::drafter {

// The local DraftEndpoint: a Drafter, its copy of the sequences, and a queue.
// All requests that wait when the executor gets to them are drafted as one
// batch. Lookahead requests run only when nothing else waits, and are cancelled
// by the next request of their sequence. Propose and EndSequence may be called
// from any thread; the Drafter and the store are used on the executor only.
// A quick drafter's request for a few new tokens runs on its caller's thread if
// nothing else does; while such requests turn out slow, ever fewer do.
class DraftEngine final : public DraftEndpoint {
 public:
  struct Options {
    std::string name;          // the drafter's, for messages
    int64_t vocab_size = 0;    // of the target
    int64_t max_nodes = 1024;  // larger budgets are reduced to this
    int64_t max_depth = 16;
    bool supports_lookahead = false;  // the drafter does
    SequenceStore::Limits store = {};
    // Partial trees are reported once the batch has taken this long. Most trees
    // are complete earlier, and every message costs both ends.
    absl::Duration report_after = absl::Milliseconds(4);
    // Most new tokens of a request that a quick drafter answers on its caller's
    // thread, and the time that such a request may take. Slower ones send the
    // next requests to the executor.
    int64_t max_quick_tokens = 512;
    absl::Duration quick_time = absl::Milliseconds(1);
    // Called once, on the executor, with the reason, when the drafter says
    // UNAVAILABLE: its device is lost to this process.
    std::function<void(const absl::Status&)> on_device_lost = nullptr;
  };

  DraftEngine(Options options, std::unique_ptr<Drafter> drafter,
              std::unique_ptr<Executor> executor,
              const DrafterMetrics& metrics);
  // Requests that the executor no longer runs are answered with UNAVAILABLE.
  ~DraftEngine() override;

  // A request whose deadline has passed when its turn comes still commits its
  // tokens, and is answered with the root alone. Errors in addition to those of
  // DraftEndpoint: CANCELLED: EndSequence came first, or, for a lookahead,
  // another request of the sequence; INTERNAL: the drafter failed.
  void Propose(ProposeRequest request, absl::Time deadline,
               OnPartial on_partial, Done<Proposal> done) override;
  void EndSequence(SequenceId sequence) override;

 private:
  struct Work {
    ProposeRequest request;
    absl::Time deadline;
    OnPartial on_partial;
    Done<Proposal> done;
    // Say what became of the features that the request says are stored; see
    // Proposal.
    bool lacks_features = false, ring_unreadable = false;
    std::vector<absl::Duration> level_times = {};  // see Proposal

    bool is_lookahead() const { return !request.lookahead.empty(); }
  };
  // How many requests go to the executor after a slow one: at first, at most.
  static constexpr int64_t kFewElsewhere = 8, kMaxElsewhere = 4096;

  std::vector<Work> TakeOut(std::function<bool(const Work&)> is_out)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<Work> TakeBatch();
  void DraftBatch();
  absl::Status Admit(Work& work);
  void TakeStored(Work& work);
  void DraftAndAnswer(std::vector<Work> batch);
  SequenceView ViewOf(Work& work, absl::Time start);
  absl::StatusOr<std::vector<TokenTree>> Draft(
      absl::Span<const SequenceView> views);
  absl::StatusOr<std::vector<TokenTree>> CallDrafter(
      absl::Span<const SequenceView> views);
  bool IsQuick(const ProposeRequest& request) const;
  bool GoesElsewhere();
  void NoteTime(absl::Span<const Work> batch, absl::Duration compute_time);
  void SweepIdle();

  const Options options_;
  bool is_lost_ = false;          // on_device_lost was called
  uint64_t unreadable_ring_ = 0;  // that was logged last
  const std::unique_ptr<Drafter> drafter_;
  const FeatureContract features_;      // the drafter's
  const bool is_quick_;                 // the drafter is
  std::atomic<int64_t> elsewhere_ = 0;  // requests that the executor is to run
  int64_t penalty_ = 0;                 // of the next slow request
  const DrafterMetrics metrics_;
  SequenceStore store_;
  Mutex mutex_;
  std::vector<Work> queue_ ABSL_GUARDED_BY(mutex_);  // first come, first served
  Executor& executor_;
  std::unique_ptr<Executor> executor_owner_;
};

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_ENGINE_DRAFT_ENGINE_H_
