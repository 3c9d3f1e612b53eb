#ifndef ESPALIER_COORDINATOR_API_GENERATE_REACTOR_H_
#define ESPALIER_COORDINATOR_API_GENERATE_REACTOR_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "coordinator/api/stop_text.h"
#include "coordinator/coordinator.h"
#include "coordinator/session/request.h"
#include "coordinator/unread_streams.h"
#include "espalier/v1/inference.pb.h"

namespace espalier::coordinator {

// The stream of one Generate call. Tokens arrive through the sink on the
// coordinator's executor; gRPC's threads write them. One message is on the wire
// at a time; tokens that arrive meanwhile are collected for the next one, so a
// slow reader costs no more memory than its own text. Deletes itself.
class GenerateReactor final
    : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 public:
  struct Options {
    std::string request_id;
    uint64_t seed = 0;
    StopText::Options text;
    grpc::CallbackServerContext* context = nullptr;  // of the call
    size_t request_bytes = 0;         // kept by gRPC until the call ends
    UnreadStreams* unread = nullptr;  // outlives the call
  };

  // Creates a call that fails before it starts.
  static GenerateReactor* Refuse(const absl::Status& status);

  explicit GenerateReactor(Options options);

  // Each call gets one Begin or Fail, from any thread, also after gRPC was
  // given the reactor, which may be deleted when they return.
  //
  // Starts the request. The call ends when the request does; the request is
  // cancelled if the client disconnects.
  void Begin(Coordinator& coordinator, GenerationRequest request);
  // Ends the call without a request.
  void Fail(const absl::Status& status);

  // Whether the client has disconnected, so that no work is needed for it.
  bool IsCancelled() const;

 private:
  class StreamSink;

  void AddTokens(absl::Span<const TokenId> tokens, int64_t step);
  void End(const absl::Status& status, const GenerationReport& report);
  // The next action, and its execution. They are separate because gRPC may
  // delete this object as soon as Finish is called outside a reaction: no code
  // may follow it.
  enum class Action { kWait, kWrite, kFinish };
  Action Next() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Do(Action action);

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  const Options options_;
  StopText text_;  // used on the executor only

  mutable Mutex mutex_;
  Coordinator* coordinator_ ABSL_GUARDED_BY(mutex_) = nullptr;
  Coordinator::Ticket ticket_ ABSL_GUARDED_BY(mutex_) = 0;
  // Begin or Fail no longer uses this object; the call does not end before
  // that.
  bool begun_ ABSL_GUARDED_BY(mutex_) = false;
  v1::GenerateResponse next_ ABSL_GUARDED_BY(mutex_);
  bool next_has_content_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  size_t wire_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // of on_wire_
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;  // the client has disconnected
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::ByteBuffer on_wire_;   // owned by gRPC while writing_
  grpc::Status final_status_;  // set before ended_, then constant
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_API_GENERATE_REACTOR_H_
