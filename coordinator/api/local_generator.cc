#include "coordinator/api/local_generator.h"

#include <utility>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "coordinator/api/generate_answer.h"

namespace espalier::coordinator {
namespace {

// A call between the coordinator, which adds to it, and its reader. Shared by
// the two; the coordinator's part is the sink.
class LocalStream final : public AnswerStream,
                          public TokenSink,
                          public std::enable_shared_from_this<LocalStream> {
 public:
  struct Options {
    GenerateAnswer::Options answer;
    int64_t num_outputs = 1;
    size_t request_bytes = 0;
    UnreadStreams* unread = nullptr;
    std::function<void()> wake;
  };
  explicit LocalStream(Options options)
      : request_bytes_(options.request_bytes),
        unread_(options.unread),
        wake_(std::move(options.wake)),
        answer_(std::move(options.answer)),
        outputs_left_(options.num_outputs) {}

  // Keeps this object until it gets its Begin or Fail.
  void Hold() { held_ = shared_from_this(); }

  void Begin(Coordinator& coordinator, GenerationRequest request) override;
  void Fail(const absl::Status& status) override;
  bool IsCancelled() const override;
  void OnTokens(const OutputPiece& piece) override;
  void OnFinish(const absl::Status& status,
                const GenerationReport& report) override;

  // For the reader.
  std::optional<v1::GenerateResponse> Take();
  std::optional<absl::Status> End();
  void Leave();

 private:
  const size_t request_bytes_;
  UnreadStreams* const unread_;
  const std::function<void()> wake_;
  std::shared_ptr<LocalStream> held_;  // see Hold

  mutable Mutex mutex_;
  GenerateAnswer answer_ ABSL_GUARDED_BY(mutex_);
  Coordinator* coordinator_ ABSL_GUARDED_BY(mutex_) = nullptr;
  Coordinator::Ticket ticket_ ABSL_GUARDED_BY(mutex_) = 0;
  bool left_ ABSL_GUARDED_BY(mutex_) = false;   // the reader has left
  bool stale_ ABSL_GUARDED_BY(mutex_) = false;  // it left the rest unread
  int64_t outputs_left_ ABSL_GUARDED_BY(mutex_);
  absl::Status first_error_ ABSL_GUARDED_BY(mutex_);
};

void LocalStream::Begin(Coordinator& coordinator, GenerationRequest request) {
  const std::shared_ptr<LocalStream> self = std::move(held_);
  const Coordinator::Ticket ticket =
      coordinator.Start(std::move(request), self);
  bool left;
  {
    MutexLock lock(&mutex_);
    coordinator_ = &coordinator;
    ticket_ = ticket;
    left = left_;
  }
  if (left) coordinator.Cancel(ticket);
}

void LocalStream::Fail(const absl::Status& status) {
  const std::shared_ptr<LocalStream> self = std::move(held_);
  {
    MutexLock lock(&mutex_);
    first_error_ = status;
    outputs_left_ = 0;
  }
  wake_();
}

bool LocalStream::IsCancelled() const {
  MutexLock lock(&mutex_);
  return left_;
}

void LocalStream::OnTokens(const OutputPiece& piece) {
  {
    MutexLock lock(&mutex_);
    if (left_) return;
    answer_.Add(piece);
  }
  wake_();
}

void LocalStream::OnFinish(const absl::Status& status,
                           const GenerationReport& report) {
  {
    MutexLock lock(&mutex_);
    --outputs_left_;
    if (left_) return;
    answer_.End(status, report);
    if (first_error_.ok()) first_error_ = status;
    if (outputs_left_ == 0) {
      unread_->Add(this, answer_.NumBytes() + request_bytes_,
                   [weak = weak_from_this()] {
                     const auto self = weak.lock();
                     if (self == nullptr) return;
                     MutexLock inner(&self->mutex_);
                     self->stale_ = true;
                   });
    }
  }
  wake_();
}

std::optional<v1::GenerateResponse> LocalStream::Take() {
  MutexLock lock(&mutex_);
  if (stale_) return std::nullopt;
  return answer_.Take();
}

std::optional<absl::Status> LocalStream::End() {
  MutexLock lock(&mutex_);
  if (stale_) {
    return absl::CancelledError("the rest of the answer was left unread");
  }
  if (outputs_left_ > 0 || answer_.NumBytes() > 0) return std::nullopt;
  return first_error_;
}

void LocalStream::Leave() {
  unread_->Remove(this);
  MutexLock lock(&mutex_);
  left_ = true;
  if (coordinator_ != nullptr && outputs_left_ > 0) {
    coordinator_->Cancel(ticket_);
  }
}

class LocalCall final : public GenerateCall {
 public:
  explicit LocalCall(std::shared_ptr<LocalStream> stream)
      : stream_(std::move(stream)) {}
  ~LocalCall() override { stream_->Leave(); }
  std::optional<v1::GenerateResponse> Take() override {
    return stream_->Take();
  }
  std::optional<absl::Status> End() override { return stream_->End(); }

 private:
  const std::shared_ptr<LocalStream> stream_;
};

class RefusedCall final : public GenerateCall {
 public:
  explicit RefusedCall(absl::Status status) : status_(std::move(status)) {}
  std::optional<v1::GenerateResponse> Take() override { return std::nullopt; }
  std::optional<absl::Status> End() override { return status_; }

 private:
  const absl::Status status_;
};

}  // namespace

std::unique_ptr<GenerateCall> LocalGenerator::Start(
    v1::GenerateRequest request, const Caller& caller,
    std::function<void()> wake) {
  std::shared_ptr<LocalStream> stream;
  const bool echo = request.echo();
  const size_t bytes = request.ByteSizeLong();
  const absl::Status status = calls_->Start(
      caller, std::move(request),
      [&](const RequestParams& params) -> AnswerStream& {
        stream = std::make_shared<LocalStream>(LocalStream::Options{
            .answer = {.request_id = params.request_id,
                       .seed = params.sampling.seed,
                       .echo = echo,
                       .hides_rounds = calls_->HidesRounds(caller.is_operator),
                       .tokenizer = calls_->model().tokenizer},
            .num_outputs = params.num_running_outputs(),
            .request_bytes = bytes,
            .unread = &calls_->unread(),
            .wake = std::move(wake)});
        stream->Hold();
        return *stream;
      });
  if (!status.ok()) return std::make_unique<RefusedCall>(status);
  return std::make_unique<LocalCall>(std::move(stream));
}

void LocalGenerator::Encode(v1::GenerateRequest request,
                            absl::AnyInvocable<void(Tokens) &&> done) {
  calls_->Tokenize(std::move(request), std::move(done));
}

}  // namespace espalier::coordinator
