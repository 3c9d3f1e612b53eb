#include "coordinator/http/messages_writer.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/json/ordered_json.h"
#include "coordinator/http/api_error.h"
#include "coordinator/http/route.h"
#include "coordinator/http/usage_json.h"

namespace espalier::coordinator {
namespace {

// A block of the answer, as far as it has come.
struct Block {
  enum class Kind { kText, kThinking, kCall };
  Kind kind = Kind::kText;
  std::string id = {};    // of a call
  std::string name = {};  // of a call
  std::string text = {};  // or thoughts, or arguments

  Json ToJson() const {
    if (kind == Kind::kText) return {{"type", "text"}, {"text", text}};
    if (kind == Kind::kThinking) {
      return {{"type", "thinking"}, {"thinking", text}, {"signature", ""}};
    }
    Json input = ReadOrderedJson(text);
    // Arguments that break off are no object.
    if (!input.is_object()) input = Json::object();
    return {{"type", "tool_use"}, {"id", id}, {"name", name}, {"input", input}};
  }
};

Json DeltaOf(Block::Kind kind, const std::string& text) {
  if (kind == Block::Kind::kText) {
    return {{"type", "text_delta"}, {"text", text}};
  }
  if (kind == Block::Kind::kThinking) {
    return {{"type", "thinking_delta"}, {"thinking", text}};
  }
  return {{"type", "input_json_delta"}, {"partial_json", text}};
}

// Streamed and whole answers have the same blocks.
class MessagesWriter final : public AnswerWriter {
 public:
  MessagesWriter(const ApiRequest& request, AnswerName name)
      : stream_(request.stream),
        name_(std::move(name)),
        usage_(request.warnings),
        parser_(request.new_parser()) {}

  std::string Add(size_t, const v1::GenerateResponse& message) override {
    std::string events;
    if (message.has_prompt()) events += Begin(message);
    ParsedText text;
    parser_->Push(message.text(), text);
    if (message.has_summary()) parser_->Finish(text);
    AddText(Block::Kind::kThinking, text.reasoning, events);
    AddText(Block::Kind::kText, text.content, events);
    for (const ToolCallPiece& piece : text.calls) AddCall(piece, events);
    if (message.has_summary()) {
      usage_.Add(message);
      summary_ = message.summary();
    }
    return stream_ ? events : "";
  }

  std::string Finish() override {
    if (!stream_) return ToText(Message(StopReason()));
    std::string events;
    EndBlock(events);
    const Json delta = {{"stop_reason", StopReason()},
                        {"stop_sequence", StopSequence()}};
    events += NamedEvent("message_delta", {{"type", "message_delta"},
                                           {"delta", delta},
                                           {"usage", Usage()},
                                           {"espalier", usage_.Espalier()}});
    return events + NamedEvent("message_stop", {{"type", "message_stop"}});
  }

  std::string Fail(const absl::Status& status) override {
    return NamedEvent("error", AnthropicError(status));
  }

 private:
  std::string Begin(const v1::GenerateResponse& message) {
    const int64_t cached = message.cached_tokens();
    Json begun = Message(nullptr);
    begun["usage"] = {
        {"input_tokens", message.prompt().token_ids_size() - cached},
        {"cache_creation_input_tokens", 0},
        {"cache_read_input_tokens", cached},
        {"output_tokens", 0}};
    return NamedEvent("message_start",
                      {{"type", "message_start"}, {"message", begun}});
  }

  void BeginBlock(Block block, std::string& events) {
    EndBlock(events);
    blocks_.push_back(std::move(block));
    is_open_ = true;
    events += NamedEvent("content_block_start",
                         {{"type", "content_block_start"},
                          {"index", blocks_.size() - 1},
                          {"content_block", blocks_.back().ToJson()}});
  }

  void EndBlock(std::string& events) {
    if (!std::exchange(is_open_, false)) return;
    events += NamedEvent("content_block_stop", {{"type", "content_block_stop"},
                                                {"index", blocks_.size() - 1}});
  }

  void Extend(const std::string& text, std::string& events) {
    if (text.empty()) return;
    Block& block = blocks_.back();
    block.text += text;
    events += NamedEvent("content_block_delta",
                         {{"type", "content_block_delta"},
                          {"index", blocks_.size() - 1},
                          {"delta", DeltaOf(block.kind, text)}});
  }

  void AddText(Block::Kind kind, const std::string& text, std::string& events) {
    if (text.empty()) return;
    if (!is_open_ || blocks_.back().kind != kind) {
      BeginBlock({.kind = kind}, events);
    }
    Extend(text, events);
  }

  void AddCall(const ToolCallPiece& piece, std::string& events) {
    if (!piece.name.empty()) {
      BeginBlock({.kind = Block::Kind::kCall,
                  .id = absl::StrCat("toolu_", NewId("")),
                  .name = piece.name},
                 events);
      has_calls_ = true;
    }
    Extend(piece.arguments, events);
  }

  Json StopReason() const {
    if (summary_.finish_reason() == v1::FINISH_REASON_LENGTH) {
      return "max_tokens";
    }
    if (has_calls_) return "tool_use";
    return summary_.has_matched_stop() ? "stop_sequence" : "end_turn";
  }

  Json StopSequence() const {
    if (!summary_.has_matched_stop()) return nullptr;
    return summary_.matched_stop();
  }

  Json Usage() const {
    return {{"input_tokens", usage_.prompt_tokens() - usage_.cached_tokens()},
            {"cache_creation_input_tokens", 0},
            {"cache_read_input_tokens", usage_.cached_tokens()},
            {"output_tokens", usage_.completion_tokens()}};
  }

  // The message; without a reason, as it begins.
  Json Message(Json reason) const {
    Json message = {{"id", name_.id},
                    {"type", "message"},
                    {"role", "assistant"},
                    {"model", name_.model},
                    {"content", Json::array()},
                    {"stop_reason", reason},
                    {"stop_sequence", StopSequence()}};
    if (reason.is_null()) return message;
    for (const Block& block : blocks_) {
      message["content"].push_back(block.ToJson());
    }
    message["usage"] = Usage();
    message["espalier"] = usage_.Espalier();
    return message;
  }

  const bool stream_;
  const AnswerName name_;
  UsageSum usage_;
  const std::unique_ptr<OutputParser> parser_;
  std::vector<Block> blocks_;
  bool is_open_ = false;  // the last block goes on
  bool has_calls_ = false;
  v1::GenerateSummary summary_;
};

}  // namespace

std::unique_ptr<AnswerWriter> NewMessagesWriter(const ApiRequest& request,
                                                AnswerName name) {
  return std::make_unique<MessagesWriter>(request, std::move(name));
}

}  // namespace espalier::coordinator
