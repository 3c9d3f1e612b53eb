#ifndef ESPALIER_COORDINATOR_API_GENERATE_REACTOR_H_
#define ESPALIER_COORDINATOR_API_GENERATE_REACTOR_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "coordinator/api/answer_stream.h"
#include "coordinator/api/generate_answer.h"
#include "coordinator/api/generate_calls.h"
#include "coordinator/api/unread_streams.h"
#include "coordinator/rounds/coordinator.h"
#include "coordinator/session/request.h"

namespace espalier::coordinator {

// The stream of one Generate call. Tokens arrive through the sink on the
// coordinator's executor; gRPC's threads write them. One message is on the wire
// at a time. Deletes itself.
class GenerateReactor final : public grpc::ServerWriteReactor<grpc::ByteBuffer>,
                              public AnswerStream {
 public:
  struct Options {
    GenerateAnswer::Options answer;
    int64_t num_outputs = 1;
    grpc::CallbackServerContext* context = nullptr;  // of the call
    size_t request_bytes = 0;         // kept by gRPC until the call ends
    UnreadStreams* unread = nullptr;  // outlives the call
    // Returns true if the caller's credential still holds; asked with every
    // piece.
    std::function<bool()> still_admitted = [] { return true; };
  };

  // Creates a call that fails before it starts.
  static GenerateReactor* Refuse(const absl::Status& status);

  explicit GenerateReactor(Options options);

  // The call ends when all outputs have ended, with the first error; the
  // request is cancelled if the client disconnects.
  void Begin(Coordinator& coordinator, GenerationRequest request) override;
  void Fail(const absl::Status& status) override;
  bool IsCancelled() const override;

 private:
  class StreamSink;

  void Add(const OutputPiece& piece);
  void End(const absl::Status& status, const GenerationReport& report);
  // The next action, and its execution. They are separate because gRPC may
  // delete this object as soon as Finish is called outside a reaction: no code
  // may follow it.
  enum class Action { kWait, kWrite, kFinish };
  Action Next() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Do(Action action);
  bool ended() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return outputs_left_ == 0;
  }

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  grpc::CallbackServerContext* const context_;
  const size_t request_bytes_;
  UnreadStreams* const unread_;  // null: a refused call
  const std::function<bool()> still_admitted_;

  mutable Mutex mutex_;
  GenerateAnswer answer_ ABSL_GUARDED_BY(mutex_);
  Coordinator* coordinator_ ABSL_GUARDED_BY(mutex_) = nullptr;
  Coordinator::Ticket ticket_ ABSL_GUARDED_BY(mutex_) = 0;
  // Begin or Fail no longer uses this object; the call does not end before
  // that.
  bool begun_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  size_t wire_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // of on_wire_
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;  // the client has disconnected
  int64_t outputs_left_ ABSL_GUARDED_BY(mutex_);
  absl::Status first_error_ ABSL_GUARDED_BY(mutex_);
  grpc::ByteBuffer on_wire_;   // owned by gRPC while writing_
  grpc::Status final_status_;  // set before the last output ends
};

// A caller that was admitted.
struct Admitted {
  std::string tenant = {};  // see Caller
  bool is_operator = false;
  std::function<bool()> still = [] { return true; };
};
// Starts a call of Generate, or ends it with the error that `request` is.
// `bytes`: of the message that gRPC keeps until the call ends.
GenerateReactor* StartReactor(GenerateCalls& calls,
                              grpc::CallbackServerContext* context,
                              const Admitted& admitted, size_t bytes,
                              absl::StatusOr<v1::GenerateRequest> request);

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_API_GENERATE_REACTOR_H_
