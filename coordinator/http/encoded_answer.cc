#include "coordinator/http/encoded_answer.h"

#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "common/json/ordered_json.h"

namespace espalier::coordinator {
namespace {

// What the other thread has found.
struct Result {
  Mutex mutex;
  std::optional<Generator::Tokens> tokens ABSL_GUARDED_BY(mutex);
};

class EncodedAnswer final : public http::Answer {
 public:
  EncodedAnswer(std::shared_ptr<Result> result, WriteTokens write,
                ErrorShape error)
      : result_(std::move(result)), write_(std::move(write)), error_(error) {}

  std::optional<Head> Begin() override {
    MutexLock lock(&result_->mutex);
    if (!result_->tokens) return std::nullopt;
    const Generator::Tokens& tokens = *result_->tokens;
    if (!tokens.ok()) return Head{ErrorResponse(tokens.status(), error_)};
    return Head{{.body = ToText(write_(*tokens))}};
  }
  std::optional<std::string> Next() override { return ""; }

 private:
  const std::shared_ptr<Result> result_;
  const WriteTokens write_;
  const ErrorShape error_;
};

}  // namespace

std::unique_ptr<http::Answer> NewEncodedAnswer(Generator& generator,
                                               v1::GenerateRequest request,
                                               WriteTokens write,
                                               ErrorShape error,
                                               http::Wake wake) {
  auto result = std::make_shared<Result>();
  generator.Encode(std::move(request),
                   [result, wake = std::move(wake)](Generator::Tokens tokens) {
                     {
                       MutexLock lock(&result->mutex);
                       result->tokens = std::move(tokens);
                     }
                     wake();
                   });
  return std::make_unique<EncodedAnswer>(std::move(result), std::move(write),
                                         error);
}

}  // namespace espalier::coordinator
