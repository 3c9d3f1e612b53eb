#ifndef ESPALIER_COORDINATOR_ROUNDS_GENERATION_H_
#define ESPALIER_COORDINATOR_ROUNDS_GENERATION_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "coordinator/peers/executor_scope.h"
#include "coordinator/rounds/decode_round.h"
#include "coordinator/rounds/environment.h"
#include "coordinator/rounds/generation_recorder.h"
#include "coordinator/rounds/pacer.h"
#include "coordinator/rounds/request_trace.h"
#include "coordinator/session/request.h"
#include "coordinator/session/request_plan.h"
#include "coordinator/session/session.h"

namespace espalier::coordinator {

// One output of an admitted request. Runs round after round until it is
// finished by a stop token, its length, its deadline, a cancel or an error,
// whichever comes first. Owned by the Coordinator; lives on the executor.
class Generation {
 public:
  struct Options {
    OutputPlan output;
    std::optional<RequestTrace::Options> trace = {};  // nullopt: no spans
    std::shared_ptr<TokenSink> sink;
    // Runs once, before the first tokens are delivered: the prompt's K/V is
    // computed.
    absl::AnyInvocable<void()&&> on_prefilled = nullptr;
    // Runs once, last; must not destroy the Generation before it returns.
    absl::AnyInvocable<void(const absl::Status&) &&> on_finished;
  };
  // Waits in the queue for Run; the deadline applies while it waits. Borrows
  // the environment.
  Generation(const Environment* environment, Options options);

  // Leaves the queue. REQUIRES: called once at most, not finished.
  void Run();

  // Ends the request at once, also while peers work on it: the sink is told,
  // every peer forgets the sequence, and late answers are ignored. REQUIRES:
  // not finished.
  void Finish(absl::Status status, FinishReason reason);

  bool running() const { return running_; }

  // Tokens of prompt and output: the most that there may be, those that there
  // are, and those that this call has added.
  int64_t most_tokens() const {
    return session_.prompt_length() + plan().session.max_tokens;
  }
  int64_t num_tokens() const { return session_.length(); }
  int64_t num_generated() const {
    return session_.num_emitted() - std::ssize(plan().session.resumed);
  }

 private:
  const RequestPlan& plan() const { return options_.output.plan; }
  void FinishResumed();
  void NextRound();
  void OnRound(absl::StatusOr<DecodeRound::Result> result);
  void Emit(const OutputPiece& piece, const Session::Committed& committed);
  void GoOn();
  OutputPiece PieceOf(VerifyResult verify_result,
                      const Session::Committed& committed,
                      const StepInfo& info) const;
  void OnError(const absl::Status& status);
  void OnNoLongerFits(const absl::Status& status);
  void OnDeadlineNear();
  void OnDeadline();
  SessionParams ParamsOfSession() const;
  void Publish(const absl::Status& status, const GenerationReport& report);

  const Environment& environment_;
  Options options_;
  ExecutorScope scope_;
  std::optional<RequestTrace> trace_;
  Session session_;
  DecodeRound round_;
  GenerationRecorder recorder_;
  std::optional<Pacer> pacer_;
  // Why the output ends when the last tokens are sent.
  FinishReason ends_as_ = FinishReason::kUnspecified;
  bool running_ = false;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_ROUNDS_GENERATION_H_
