#ifndef ESPALIER_COORDINATOR_GENERATE_REACTOR_H_
#define ESPALIER_COORDINATOR_GENERATE_REACTOR_H_

#include <grpcpp/support/server_callback.h>

#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "common/tokenizer/incremental_detokenizer.h"
#include "coordinator/coordinator.h"
#include "coordinator/request.h"
#include "espalier/v1/inference.pb.h"

namespace espalier::coordinator {

// The stream of one Generate call. Tokens arrive through Sink() on the
// coordinator's executor; gRPC's threads take them away. One message is on the
// wire at a time; tokens that arrive meanwhile gather in the next one, so a
// slow reader costs no more memory than its own text. Deletes itself.
class GenerateReactor final
    : public grpc::ServerWriteReactor<v1::GenerateResponse> {
 public:
  struct Options {
    std::string request_id;
    uint64_t seed = 0;
    const Tokenizer* tokenizer = nullptr;
    std::vector<TokenId> stop_token_ids;  // left out of the text
  };

  // A call that fails before it starts.
  static GenerateReactor* Refuse(const grpc::Status& status);

  explicit GenerateReactor(Options options);

  // Starts the request, once, before gRPC is given the reactor. The call ends
  // when the request does; the request is cancelled when the client goes away.
  void Begin(Coordinator& coordinator, GenerationRequest request);

 private:
  class StreamSink;

  void AddTokens(absl::Span<const TokenId> tokens, int64_t step);
  void End(const absl::Status& status, const GenerationReport& report);
  // What to do next, and doing it. Apart, because gRPC may delete this object
  // as soon as Finish is called outside a reaction: nothing may follow it.
  enum class Action { kWait, kWrite, kFinish };
  Action Next() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Do(Action action);

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override { delete this; }

  const Options options_;
  Coordinator* coordinator_ = nullptr;  // constant after Begin
  Coordinator::Ticket ticket_ = 0;      // constant after Begin
  IncrementalDetokenizer detokenizer_;  // the executor's alone

  Mutex mutex_;
  v1::GenerateResponse next_ ABSL_GUARDED_BY(mutex_);
  bool next_has_content_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;  // the client is gone
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  v1::GenerateResponse on_wire_;  // gRPC's while writing_
  grpc::Status final_status_;     // set before ended_, then constant
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_GENERATE_REACTOR_H_
