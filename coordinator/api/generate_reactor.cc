#include "coordinator/api/generate_reactor.h"

#include <optional>
#include <utility>

#include "common/rpc/call_deadline.h"
#include "common/rpc/read_message.h"
#include "common/rpc/status_convert.h"
#include "common/speculation/trace_context.h"

namespace espalier::coordinator {

class GenerateReactor::StreamSink final : public TokenSink {
 public:
  explicit StreamSink(GenerateReactor* reactor) : reactor_(reactor) {}
  void OnTokens(const OutputPiece& piece) override { reactor_->Add(piece); }
  void OnFinish(const absl::Status& status,
                const GenerationReport& report) override {
    reactor_->End(status, report);
  }

 private:
  // Outlives the calls of the sink: only the last End lets gRPC finish the
  // call.
  GenerateReactor* const reactor_;
};

GenerateReactor::GenerateReactor(Options options)
    : context_(options.context),
      request_bytes_(options.request_bytes),
      unread_(options.unread),
      still_admitted_(std::move(options.still_admitted)),
      answer_(std::move(options.answer)),
      outputs_left_(options.num_outputs) {}

void GenerateReactor::Begin(Coordinator& coordinator,
                            GenerationRequest request) {
  const Coordinator::Ticket ticket =
      coordinator.Start(std::move(request), std::make_shared<StreamSink>(this));
  Action action;
  bool is_cancelled;
  {
    MutexLock lock(&mutex_);
    coordinator_ = &coordinator;
    ticket_ = ticket;
    begun_ = true;
    is_cancelled = broken_;
    action = Next();
  }
  if (is_cancelled) coordinator.Cancel(ticket);
  // For kWait another thread may have ended the call, and this object may be
  // deleted.
  if (action != Action::kWait) Do(action);
}

void GenerateReactor::Fail(const absl::Status& status) {
  Action action;
  {
    MutexLock lock(&mutex_);
    final_status_ = ToGrpcStatus(status);
    outputs_left_ = 0;
    begun_ = true;
    action = Next();
  }
  if (action != Action::kWait) Do(action);
}

bool GenerateReactor::IsCancelled() const {
  MutexLock lock(&mutex_);
  return broken_;
}

GenerateReactor* GenerateReactor::Refuse(const absl::Status& status) {
  auto* reactor = new GenerateReactor({});
  reactor->Fail(status);
  return reactor;
}

void GenerateReactor::Add(const OutputPiece& piece) {
  const bool admitted = still_admitted_();
  Action action;
  Coordinator* coordinator;
  Coordinator::Ticket ticket;
  {
    MutexLock lock(&mutex_);
    if (admitted) {
      answer_.Add(piece);
    } else if (first_error_.ok()) {
      first_error_ = absl::UnauthenticatedError("the credential was revoked");
    }
    coordinator = coordinator_;
    ticket = ticket_;
    action = Next();
  }
  // Begin may not have returned yet: then a later piece ends the request.
  if (!admitted && coordinator != nullptr) coordinator->Cancel(ticket);
  Do(action);
}

void GenerateReactor::End(const absl::Status& status,
                          const GenerationReport& report) {
  Action action;
  {
    MutexLock lock(&mutex_);
    answer_.End(status, report);
    if (first_error_.ok()) first_error_ = status;
    if (outputs_left_ == 1) final_status_ = ToGrpcStatus(first_error_);
    --outputs_left_;
    action = Next();
    // Under the lock: the call may end as soon as another thread takes the
    // lock.
    if (ended() && action != Action::kFinish) {
      unread_->Add(this, answer_.NumBytes() + wire_bytes_ + request_bytes_,
                   [context = context_] { context->TryCancel(); });
    }
  }
  // For kWait the end of a write finishes the call, and this object may be
  // deleted.
  if (action != Action::kWait) Do(action);
}

GenerateReactor::Action GenerateReactor::Next() {
  if (writing_) return Action::kWait;
  if (!broken_) {
    if (const std::optional<v1::GenerateResponse> message = answer_.Take()) {
      on_wire_ = WriteMessage(*message);
      wire_bytes_ = on_wire_.Length();
      writing_ = true;
      return Action::kWrite;
    }
  }
  return ended() && begun_ ? Action::kFinish : Action::kWait;
}

void GenerateReactor::Do(Action action) {
  if (action == Action::kWrite) StartWrite(&on_wire_);
  if (action == Action::kFinish) Finish(final_status_);
}

void GenerateReactor::OnWriteDone(bool ok) {
  Action action;
  {
    MutexLock lock(&mutex_);
    writing_ = false;
    broken_ |= !ok;
    action = Next();
  }
  Do(action);
}

void GenerateReactor::OnDone() {
  if (unread_ != nullptr) unread_->Remove(this);
  delete this;
}

void GenerateReactor::OnCancel() {
  MutexLock lock(&mutex_);
  broken_ = true;
  if (coordinator_ != nullptr) coordinator_->Cancel(ticket_);
}

namespace {

// Returns the first value; or empty.
std::string MetadataOf(const grpc::CallbackServerContext& context,
                       const char* name) {
  const auto& metadata = context.client_metadata();
  const auto found = metadata.find(name);
  if (found == metadata.end()) return "";
  return {found->second.data(), found->second.size()};
}

// As the specification has it, a malformed one is ignored.
std::string TraceparentOf(const grpc::CallbackServerContext& context) {
  const std::string value = MetadataOf(context, kTraceparent);
  return IsTraceparent(value) ? value : "";
}

}  // namespace

GenerateReactor* StartReactor(GenerateCalls& calls,
                              grpc::CallbackServerContext* context,
                              const Admitted& admitted, size_t bytes,
                              absl::StatusOr<v1::GenerateRequest> request) {
  GenerateReactor* reactor = nullptr;
  const bool echo = request.ok() && request->echo();
  const absl::Status status = calls.Start(
      {.peer = context->peer(),
       .deadline = CallDeadline(context->raw_deadline()),
       .traceparent = TraceparentOf(*context),
       .tenant = admitted.tenant,
       .stated_tenant = MetadataOf(*context, kTenantMetadata),
       .is_operator = admitted.is_operator},
      std::move(request), [&](const RequestParams& params) -> AnswerStream& {
        reactor = new GenerateReactor(
            {.answer = {.request_id = params.request_id,
                        .seed = params.sampling.seed,
                        .echo = echo,
                        .hides_rounds = calls.HidesRounds(admitted.is_operator),
                        .tokenizer = calls.model().tokenizer},
             .num_outputs = params.num_running_outputs(),
             .context = context,
             .request_bytes = bytes,
             .unread = &calls.unread(),
             .still_admitted = admitted.still});
        return *reactor;
      });
  return status.ok() ? reactor : GenerateReactor::Refuse(status);
}

}  // namespace espalier::coordinator
