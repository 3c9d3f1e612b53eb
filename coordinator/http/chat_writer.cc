#include "coordinator/http/chat_writer.h"

#include <utility>
#include <vector>

#include "common/json/ordered_json.h"
#include "coordinator/http/api_error.h"
#include "coordinator/http/logprobs_json.h"
#include "coordinator/http/route.h"
#include "coordinator/http/usage_json.h"

namespace espalier::coordinator {
namespace {

// vLLM's further fields of a choice.
void AddStopReason(const v1::GenerateSummary& summary, Json& choice) {
  choice["stop_reason"] = nullptr;
  if (summary.has_matched_stop()) {
    choice["stop_reason"] = summary.matched_stop();
  }
}

void AddTokens(const v1::GenerateResponse& message, Json& choice) {
  for (const uint32_t token : message.token_ids()) {
    choice["token_ids"].push_back(token);
  }
}

// Names of calls. Some templates take nine letters and digits only.
std::string NewCallId() { return NewId("").substr(0, 9); }

Json CallJson(const ToolCallPiece& piece) {
  Json call = {{"index", piece.index}};
  if (!piece.name.empty()) {
    call["id"] = NewCallId();
    call["type"] = "function";
    call["function"]["name"] = piece.name;
  }
  call["function"]["arguments"] = piece.arguments;
  return call;
}

// What both forms of the answer have.
class ChatWriter : public AnswerWriter {
 public:
  ChatWriter(const ApiRequest& request, AnswerName name)
      : include_usage_(request.include_usage),
        logprobs_(request.logprobs),
        token_ids_(request.return_token_ids),
        name_(std::move(name)),
        usage_(request.warnings) {
    const uint32_t n = request.generate.has_n() ? request.generate.n() : 1;
    for (uint32_t i = 0; i < n; ++i) parsers_.push_back(request.new_parser());
  }

 protected:
  Json Head(const char* object) const {
    return {{"id", name_.id},
            {"object", object},
            {"created", name_.created},
            {"model", name_.model},
            {"system_fingerprint", nullptr},
            {"choices", Json::array()}};
  }

  // What a message adds to its output.
  ParsedText Parse(const v1::GenerateResponse& message) {
    ParsedText text;
    parsers_[message.index()]->Push(message.text(), text);
    if (message.has_summary()) parsers_[message.index()]->Finish(text);
    return text;
  }

  static const char* FinishReason(const v1::GenerateSummary& summary,
                                  bool has_calls) {
    if (summary.finish_reason() == v1::FINISH_REASON_LENGTH) return "length";
    return has_calls ? "tool_calls" : "stop";
  }

  const bool include_usage_;
  const bool logprobs_;
  const bool token_ids_;
  const AnswerName name_;
  UsageSum usage_;
  std::vector<std::unique_ptr<OutputParser>> parsers_;  // by output
};

class StreamedChat final : public ChatWriter {
 public:
  StreamedChat(const ApiRequest& request, AnswerName name)
      : ChatWriter(request, std::move(name)), outputs_(parsers_.size()) {}

  std::string Add(size_t, const v1::GenerateResponse& message) override {
    std::string events;
    if (!outputs_[message.index()].begun) events += Begin(message);
    const ParsedText text = Parse(message);
    outputs_[message.index()].has_calls |= !text.calls.empty();
    if (!text.empty() || message.logprobs_size() > 0 || token_ids_) {
      events += Event(Piece(message, text));
    }
    if (message.has_summary()) events += Event(Last(message));
    return events;
  }

  std::string Finish() override {
    std::string events;
    if (include_usage_) {
      Json chunk = Head(kObject);
      chunk["usage"] = usage_.OpenAiUsage();
      events = Event(chunk);
    }
    return events + kDoneEvent;
  }

  std::string Fail(const absl::Status& status) override {
    return Event(OpenAiError(status)) + kDoneEvent;
  }

 private:
  static constexpr char kObject[] = "chat.completion.chunk";
  struct Output {
    bool begun = false;
    bool has_calls = false;
  };

  Json Chunk(const v1::GenerateResponse& message, Json delta) const {
    Json chunk = Head(kObject);
    chunk["choices"].push_back({{"index", message.index()},
                                {"delta", std::move(delta)},
                                {"logprobs", nullptr},
                                {"finish_reason", nullptr}});
    if (include_usage_) chunk["usage"] = nullptr;
    return chunk;
  }

  std::string Begin(const v1::GenerateResponse& message) {
    outputs_[message.index()].begun = true;
    Json chunk = Chunk(message, {{"role", "assistant"}, {"content", ""}});
    if (message.has_prompt() && message.prompt().logprobs_size() > 0) {
      chunk["prompt_logprobs"] = PromptLogprobs(message.prompt().logprobs());
    }
    return Event(chunk);
  }

  Json Piece(const v1::GenerateResponse& message,
             const ParsedText& text) const {
    Json delta = Json::object();
    if (!text.reasoning.empty()) delta["reasoning_content"] = text.reasoning;
    if (!text.content.empty()) delta["content"] = text.content;
    for (const ToolCallPiece& piece : text.calls) {
      delta["tool_calls"].push_back(CallJson(piece));
    }
    Json chunk = Chunk(message, std::move(delta));
    Json& choice = chunk["choices"][0];
    if (logprobs_) {
      Json content = Json::array();
      AppendChatLogprobs(message.logprobs(), content);
      choice["logprobs"] = {{"content", std::move(content)},
                            {"refusal", nullptr}};
    }
    if (token_ids_) AddTokens(message, choice);
    return chunk;
  }

  Json Last(const v1::GenerateResponse& message) {
    usage_.Add(message);
    Json chunk = Chunk(message, Json::object());
    Json& choice = chunk["choices"][0];
    choice["finish_reason"] =
        FinishReason(message.summary(), outputs_[message.index()].has_calls);
    AddStopReason(message.summary(), choice);
    UsageSum own({});
    own.Add(message);
    chunk["espalier"] = own.Espalier();
    return chunk;
  }

  std::vector<Output> outputs_;
};

class WholeChat final : public ChatWriter {
 public:
  WholeChat(const ApiRequest& request, AnswerName name)
      : ChatWriter(request, std::move(name)), choices_(parsers_.size()) {}

  std::string Add(size_t, const v1::GenerateResponse& message) override {
    Choice& choice = choices_[message.index()];
    Collect(Parse(message), choice);
    if (logprobs_) AppendChatLogprobs(message.logprobs(), choice.logprobs);
    if (token_ids_) AddTokens(message, choice.json);
    if (message.has_prompt() && message.prompt().logprobs_size() > 0) {
      prompt_logprobs_ = PromptLogprobs(message.prompt().logprobs());
    }
    if (message.has_summary()) {
      choice.json["finish_reason"] =
          FinishReason(message.summary(), !choice.calls.empty());
      AddStopReason(message.summary(), choice.json);
      usage_.Add(message);
    }
    return "";
  }

  std::string Finish() override {
    Json body = Head("chat.completion");
    for (size_t i = 0; i < choices_.size(); ++i) {
      Choice& choice = choices_[i];
      Json json = {
          {"index", i}, {"message", Message(choice)}, {"logprobs", nullptr}};
      if (logprobs_) {
        json["logprobs"] = {{"content", std::move(choice.logprobs)},
                            {"refusal", nullptr}};
      }
      json.update(choice.json);
      body["choices"].push_back(std::move(json));
    }
    body["usage"] = usage_.OpenAiUsage();
    if (!prompt_logprobs_.is_null()) {
      body["prompt_logprobs"] = std::move(prompt_logprobs_);
    }
    body["espalier"] = usage_.Espalier();
    return ToText(body);
  }

  std::string Fail(const absl::Status&) override { return ""; }

 private:
  struct Choice {
    ParsedText text;
    std::vector<ToolCallPiece> calls;  // whole ones
    Json logprobs = Json::array();
    Json json = Json::object();  // the rest
  };

  static void Collect(ParsedText text, Choice& choice) {
    choice.text.content += text.content;
    choice.text.reasoning += text.reasoning;
    for (ToolCallPiece& piece : text.calls) {
      if (piece.name.empty()) {
        choice.calls.back().arguments += piece.arguments;
      } else {
        choice.calls.push_back(std::move(piece));
      }
    }
  }

  static Json Message(const Choice& choice) {
    Json message = {{"role", "assistant"},
                    {"content", choice.text.content},
                    {"refusal", nullptr}};
    if (!choice.text.reasoning.empty()) {
      message["reasoning_content"] = choice.text.reasoning;
    }
    if (choice.calls.empty()) return message;
    if (choice.text.content.empty()) message["content"] = nullptr;
    for (const ToolCallPiece& piece : choice.calls) {
      Json call = CallJson(piece);
      call.erase("index");
      message["tool_calls"].push_back(std::move(call));
    }
    return message;
  }

  std::vector<Choice> choices_;  // by output
  Json prompt_logprobs_;
};

}  // namespace

std::unique_ptr<AnswerWriter> NewChatWriter(const ApiRequest& request,
                                            AnswerName name) {
  if (request.stream) {
    return std::make_unique<StreamedChat>(request, std::move(name));
  }
  return std::make_unique<WholeChat>(request, std::move(name));
}

}  // namespace espalier::coordinator
