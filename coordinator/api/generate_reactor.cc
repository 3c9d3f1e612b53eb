#include "coordinator/api/generate_reactor.h"

#include <memory>
#include <string>
#include <utility>

#include "common/rpc/read_message.h"
#include "common/rpc/status_convert.h"
#include "coordinator/api/generate_summary.h"

namespace espalier::coordinator {

class GenerateReactor::StreamSink final : public TokenSink {
 public:
  explicit StreamSink(GenerateReactor* reactor) : reactor_(reactor) {}
  void OnTokens(absl::Span<const TokenId> tokens,
                const StepInfo& info) override {
    reactor_->AddTokens(tokens, info.step);
  }
  void OnFinish(const absl::Status& status,
                const GenerationReport& report) override {
    reactor_->End(status, report);
  }

 private:
  // Outlives the sink: only End lets gRPC finish the call.
  GenerateReactor* const reactor_;
};

GenerateReactor::GenerateReactor(Options options)
    : options_(std::move(options)), text_(options_.text) {}

void GenerateReactor::Begin(Coordinator& coordinator,
                            GenerationRequest request) {
  const Coordinator::Ticket ticket =
      coordinator.Start(std::move(request), std::make_unique<StreamSink>(this));
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
    ended_ = begun_ = true;
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

void GenerateReactor::AddTokens(absl::Span<const TokenId> tokens,
                                int64_t step) {
  std::string text;
  for (TokenId token : tokens) text += text_.Push(token);
  Action action;
  {
    MutexLock lock(&mutex_);
    next_.set_step(static_cast<uint32_t>(step));
    next_.mutable_token_ids()->Add(tokens.begin(), tokens.end());
    next_.mutable_text()->append(text);
    next_has_content_ = true;
    action = Next();
  }
  Do(action);
}

void GenerateReactor::End(const absl::Status& status,
                          const GenerationReport& report) {
  Action action;
  {
    MutexLock lock(&mutex_);
    next_.mutable_text()->append(text_.Flush());
    if (status.ok()) {
      *next_.mutable_summary() = Summarise(report, options_.seed);
    }
    next_has_content_ |= status.ok() || !next_.text().empty();
    final_status_ = ToGrpcStatus(status);
    ended_ = true;
    action = Next();
    // Under the lock: the call may end as soon as another thread takes the
    // lock.
    if (action != Action::kFinish) {
      options_.unread->Add(
          this, next_.ByteSizeLong() + wire_bytes_ + options_.request_bytes,
          [context = options_.context] { context->TryCancel(); });
    }
  }
  // For kWait the end of a write finishes the call, and this object may be
  // deleted.
  if (action != Action::kWait) Do(action);
}

GenerateReactor::Action GenerateReactor::Next() {
  if (writing_) return Action::kWait;
  if (next_has_content_ && !broken_) {
    next_.set_request_id(options_.request_id);
    on_wire_ = WriteMessage(next_);
    wire_bytes_ = on_wire_.Length();
    next_.Clear();
    next_has_content_ = false;
    writing_ = true;
    return Action::kWrite;
  }
  return ended_ && begun_ ? Action::kFinish : Action::kWait;
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
  if (options_.unread != nullptr) options_.unread->Remove(this);
  delete this;
}

void GenerateReactor::OnCancel() {
  MutexLock lock(&mutex_);
  broken_ = true;
  if (coordinator_ != nullptr) coordinator_->Cancel(ticket_);
}

}  // namespace espalier::coordinator
