#include "coordinator/http/completion_writer.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/json/ordered_json.h"
#include "coordinator/http/api_error.h"
#include "coordinator/http/logprobs_json.h"
#include "coordinator/http/usage_json.h"

namespace espalier::coordinator {
namespace {

// Streamed and whole answers have choices of one form; a stream has many for
// each output, with what is new.
class CompletionWriter final : public AnswerWriter {
 public:
  CompletionWriter(const ApiRequest& request, AnswerName name)
      : stream_(request.stream),
        include_usage_(request.include_usage),
        logprobs_(request.logprobs),
        prompt_logprobs_(request.prompt_logprobs),
        token_ids_(request.return_token_ids),
        echo_(request.generate.echo()),
        num_outputs_(request.generate.has_n() ? request.generate.n() : 1),
        name_(std::move(name)),
        usage_(request.warnings),
        choices_(num_outputs_ * request.prompts.size()),
        prompts_(request.prompts.size()) {}

  std::string Add(size_t call, const v1::GenerateResponse& message) override {
    // Output 0 has it, and begins first.
    if (message.has_prompt()) prompts_[call] = message.prompt();
    Choice& choice = choices_[call * num_outputs_ + message.index()];
    if (!choice.begun) Begin(prompts_[call], choice);
    choice.text += message.text();
    choice.logprobs.Add(message.logprobs());
    for (const uint32_t token : message.token_ids()) {
      choice.token_ids.push_back(token);
    }
    if (message.has_summary()) End(message, choice);
    if (!stream_) return "";
    Json chunk = Head();
    chunk["choices"].push_back(Take(call * num_outputs_ + message.index()));
    if (include_usage_) chunk["usage"] = nullptr;
    if (message.has_summary()) {
      UsageSum own({});
      own.Add(message);
      chunk["espalier"] = own.Espalier();
    }
    if (message.has_origin()) {
      chunk["espalier"]["seed"] = message.seed();
      // A number would lose digits in JavaScript.
      chunk["espalier"]["origin"] = absl::StrCat(message.origin());
    }
    return Event(chunk);
  }

  std::string Finish() override {
    Json body = Head();
    if (!stream_) {
      for (size_t i = 0; i < choices_.size(); ++i) {
        body["choices"].push_back(Take(i));
      }
    }
    body["usage"] = usage_.OpenAiUsage();
    body["espalier"] = usage_.Espalier();
    if (!stream_) return ToText(body);
    return (include_usage_ ? Event(body) : "") + kDoneEvent;
  }

  std::string Fail(const absl::Status& status) override {
    return Event(OpenAiError(status)) + kDoneEvent;
  }

 private:
  struct Choice {
    bool begun = false;
    std::string text;
    CompletionLogprobs logprobs;
    Json token_ids = Json::array();
    Json finish_reason;
    Json stop_reason;
    Json prompt_logprobs;
  };

  Json Head() const {
    return {{"id", name_.id},
            {"object", "text_completion"},
            {"created", name_.created},
            {"model", name_.model},
            {"system_fingerprint", nullptr},
            {"choices", Json::array()}};
  }

  void Begin(const v1::ReturnedPrompt& prompt, Choice& choice) const {
    choice.begun = true;
    if (prompt_logprobs_) {
      choice.prompt_logprobs = PromptLogprobs(prompt.logprobs());
    }
    if (!echo_) return;
    choice.text = prompt.text();
    if (!logprobs_) return;
    choice.logprobs.AddFirst(FirstToken(prompt));
    choice.logprobs.Add(prompt.logprobs());
  }

  // The text of the prompt before its second token.
  static std::string FirstToken(const v1::ReturnedPrompt& prompt) {
    size_t rest = 0;
    for (const v1::PositionLogprobs& position : prompt.logprobs()) {
      rest += position.chosen().token().size();
    }
    const std::string& text = prompt.text();
    return text.substr(0, text.size() - std::min(rest, text.size()));
  }

  void End(const v1::GenerateResponse& message, Choice& choice) {
    const v1::GenerateSummary& summary = message.summary();
    choice.finish_reason =
        summary.finish_reason() == v1::FINISH_REASON_LENGTH ? "length" : "stop";
    if (summary.has_matched_stop()) {
      choice.stop_reason = summary.matched_stop();
    }
    usage_.Add(message);
  }

  // What the choice has not shown yet.
  Json Take(size_t index) {
    Choice& choice = choices_[index];
    Json json = {{"index", index},
                 {"text", std::exchange(choice.text, "")},
                 {"logprobs", nullptr},
                 {"finish_reason", choice.finish_reason},
                 {"stop_reason", choice.stop_reason}};
    if (logprobs_) json["logprobs"] = choice.logprobs.Take();
    if (token_ids_) {
      json["token_ids"] = std::exchange(choice.token_ids, Json::array());
    }
    if (!choice.prompt_logprobs.is_null()) {
      json["prompt_logprobs"] = std::exchange(choice.prompt_logprobs, nullptr);
    }
    return json;
  }

  const bool stream_;
  const bool include_usage_;
  const bool logprobs_;
  const bool prompt_logprobs_;
  const bool token_ids_;
  const bool echo_;
  const size_t num_outputs_;
  const AnswerName name_;
  UsageSum usage_;
  std::vector<Choice> choices_;
  std::vector<v1::ReturnedPrompt> prompts_;
};

}  // namespace

std::unique_ptr<AnswerWriter> NewCompletionWriter(const ApiRequest& request,
                                                  AnswerName name) {
  return std::make_unique<CompletionWriter>(request, std::move(name));
}

}  // namespace espalier::coordinator
