// A Generator that answers what a test scripts, and a driver of answers.
#ifndef ESPALIER_TESTS_COORDINATOR_HTTP_FAKE_GENERATOR_H_
#define ESPALIER_TESTS_COORDINATOR_HTTP_FAKE_GENERATOR_H_

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/http/answer.h"
#include "coordinator/api/generator.h"

namespace espalier::coordinator {

class FakeGenerator final : public Generator {
 public:
  // Holds what every call answers, and how it ends.
  std::vector<v1::GenerateResponse> script;
  absl::Status end;
  // Keeps what it was asked for.
  std::vector<v1::GenerateRequest> asked;
  std::vector<Caller> callers;

  std::unique_ptr<GenerateCall> Start(v1::GenerateRequest request,
                                      const Caller& caller,
                                      std::function<void()>) override {
    asked.push_back(std::move(request));
    callers.push_back(caller);
    return std::make_unique<Call>(script, end);
  }

  void Encode(v1::GenerateRequest request,
              absl::AnyInvocable<void(Tokens) &&> done) override {
    asked.push_back(std::move(request));
    std::move(done)(std::vector<TokenId>{1, 2, 3});
  }

  // A message of output 0 with this text.
  static v1::GenerateResponse Text(const std::string& text) {
    v1::GenerateResponse message;
    message.set_text(text);
    message.add_token_ids(7);
    return message;
  }
  // The last message of an output.
  static v1::GenerateResponse Last(
      uint32_t output = 0, v1::FinishReason reason = v1::FINISH_REASON_STOP) {
    v1::GenerateResponse message;
    message.set_index(output);
    v1::GenerateSummary& summary = *message.mutable_summary();
    summary.set_finish_reason(reason);
    summary.mutable_usage()->set_prompt_tokens(5);
    summary.mutable_usage()->set_completion_tokens(4);
    summary.mutable_usage()->set_cached_tokens(3);
    v1::SpecStats& stats = *summary.mutable_spec_stats();
    stats.set_num_spec_steps(2);
    stats.set_mean_acceptance_length(2);
    stats.set_num_draft_tokens(6);
    stats.set_num_accepted_draft_tokens(2);
    v1::DrafterStats& drafter = *stats.add_drafters();
    drafter.set_name("lookup");
    drafter.set_accepted(2);
    return message;
  }

 private:
  class Call final : public GenerateCall {
   public:
    Call(const std::vector<v1::GenerateResponse>& script, absl::Status end)
        : messages_(script.begin(), script.end()), end_(std::move(end)) {}
    std::optional<v1::GenerateResponse> Take() override {
      if (messages_.empty()) return std::nullopt;
      v1::GenerateResponse message = std::move(messages_.front());
      messages_.pop_front();
      return message;
    }
    std::optional<absl::Status> End() override {
      if (!messages_.empty()) return std::nullopt;
      return end_;
    }

   private:
    std::deque<v1::GenerateResponse> messages_;
    const absl::Status end_;
  };
};

// Reads an answer to its end: the response with the whole body.
inline http::Response ReadAnswer(http::Answer& answer) {
  auto head = answer.Begin();
  if (!head) return {.status = 0};
  http::Response response = head->response;
  while (head->is_stream) {
    const std::optional<std::string> piece = answer.Next();
    if (!piece || piece->empty()) break;
    response.body += *piece;
  }
  return response;
}

}  // namespace espalier::coordinator

#endif  // ESPALIER_TESTS_COORDINATOR_HTTP_FAKE_GENERATOR_H_
