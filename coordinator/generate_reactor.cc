#include "coordinator/generate_reactor.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "common/rpc/status_convert.h"
#include "coordinator/generate_summary.h"

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
  // Outlives the sink's use: only End lets gRPC finish the call.
  GenerateReactor* const reactor_;
};

GenerateReactor::GenerateReactor(Options options)
    : options_(std::move(options)),
      detokenizer_(options_.tokenizer, {.skip_special = true}) {}

void GenerateReactor::Begin(Coordinator& coordinator,
                            GenerationRequest request) {
  coordinator_ = &coordinator;
  ticket_ =
      coordinator.Start(std::move(request), std::make_unique<StreamSink>(this));
}

GenerateReactor* GenerateReactor::Refuse(const grpc::Status& status) {
  auto* reactor = new GenerateReactor({});
  reactor->Finish(status);
  return reactor;
}

void GenerateReactor::AddTokens(absl::Span<const TokenId> tokens,
                                int64_t step) {
  std::string text;
  for (TokenId token : tokens) {
    if (std::count(options_.stop_token_ids.begin(),
                   options_.stop_token_ids.end(), token) == 0) {
      text += detokenizer_.Push(token);
    }
  }
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
    next_.mutable_text()->append(detokenizer_.Flush());
    if (status.ok()) {
      *next_.mutable_summary() = Summarise(report, options_.seed);
    }
    next_has_content_ |= status.ok() || !next_.text().empty();
    final_status_ = ToGrpcStatus(status);
    ended_ = true;
    action = Next();
  }
  // Otherwise the end of a write finishes the call, and this may be gone now.
  if (action != Action::kWait) Do(action);
}

GenerateReactor::Action GenerateReactor::Next() {
  if (writing_) return Action::kWait;
  if (next_has_content_ && !broken_) {
    on_wire_.Clear();
    on_wire_.Swap(&next_);
    on_wire_.set_request_id(options_.request_id);
    next_has_content_ = false;
    writing_ = true;
    return Action::kWrite;
  }
  return ended_ ? Action::kFinish : Action::kWait;
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

void GenerateReactor::OnCancel() {
  {
    MutexLock lock(&mutex_);
    broken_ = true;
  }
  if (coordinator_ != nullptr) coordinator_->Cancel(ticket_);
}

}  // namespace espalier::coordinator
