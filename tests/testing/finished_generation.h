// A generation of a coordinator that runs on threads of its own.
#ifndef ESPALIER_TESTS_TESTING_FINISHED_GENERATION_H_
#define ESPALIER_TESTS_TESTING_FINISHED_GENERATION_H_

#include <functional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/base/notification.h"
#include "coordinator/rounds/coordinator.h"

namespace espalier::testing {

// The outcome. Read it after `finished`.
struct FinishedGeneration {
  std::vector<TokenId> text;
  absl::Status status;
  coordinator::GenerationReport report;
  Notification finished;
};

class FinishedGenerationSink final : public coordinator::TokenSink {
 public:
  // `on_text`: called with the text so far after each step; may be null.
  using OnText = std::function<void(const std::vector<TokenId>& text)>;
  explicit FinishedGenerationSink(FinishedGeneration* result,
                                  OnText on_text = nullptr)
      : result_(*result), on_text_(std::move(on_text)) {}

  void OnTokens(const coordinator::OutputPiece& piece) override {
    result_.text.insert(result_.text.end(), piece.tokens.begin(),
                        piece.tokens.end());
    if (on_text_) on_text_(result_.text);
  }
  void OnFinish(const absl::Status& status,
                const coordinator::GenerationReport& report) override {
    result_.status = status;
    result_.report = report;
    result_.finished.Notify();
  }

 private:
  FinishedGeneration& result_;
  const OnText on_text_;
};

inline void ShutDownAndWait(coordinator::Coordinator& coordinator) {
  Notification done;
  coordinator.Shutdown([&done] { done.Notify(); });
  done.Wait();
}

}  // namespace espalier::testing

#endif  // ESPALIER_TESTS_TESTING_FINISHED_GENERATION_H_
