#include "coordinator/http/responses_writer.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/json/ordered_json.h"
#include "coordinator/http/api_error.h"
#include "coordinator/http/route.h"
#include "coordinator/http/usage_json.h"

namespace espalier::coordinator {
namespace {

// An item of the output, as far as it has come.
struct OutputItem {
  enum class Kind { kMessage, kReasoning, kCall };
  Kind kind = Kind::kMessage;
  std::string id;
  std::string call_id = {};  // of a call
  std::string name = {};     // of a call
  std::string text = {};     // or thoughts, or arguments

  const char* part_type() const {
    return kind == Kind::kMessage ? "output_text" : "reasoning_text";
  }
  Json Part() const {
    Json part = {{"type", part_type()}, {"text", text}};
    if (kind == Kind::kMessage) {
      part["annotations"] = Json::array();
      part["logprobs"] = Json::array();
    }
    return part;
  }
  Json ToJson(const char* status) const {
    if (kind == Kind::kCall) {
      return {{"id", id},         {"type", "function_call"},
              {"status", status}, {"call_id", call_id},
              {"name", name},     {"arguments", text}};
    }
    Json content = Json::array();
    if (!text.empty()) content.push_back(Part());
    if (kind == Kind::kReasoning) {
      return {{"id", id},
              {"type", "reasoning"},
              {"summary", Json::array()},
              {"content", content}};
    }
    return {{"id", id},
            {"type", "message"},
            {"status", status},
            {"role", "assistant"},
            {"content", content}};
  }
};

// Streamed and whole answers have the same items.
class ResponsesWriter final : public AnswerWriter {
 public:
  ResponsesWriter(const ApiRequest& request, AnswerName name)
      : stream_(request.stream),
        parallel_(request.tools.parallel),
        tools_(request.given_tools.is_null() ? Json::array()
                                             : request.given_tools),
        tool_choice_(request.given_choice.is_null() ? Json("auto")
                                                    : request.given_choice),
        temperature_(request.generate.temperature()),
        top_p_(request.generate.has_top_p() ? request.generate.top_p() : 1),
        name_(std::move(name)),
        usage_(request.warnings),
        parser_(request.new_parser()) {}

  std::string Add(size_t, const v1::GenerateResponse& message) override {
    std::string events;
    if (sequence_ == 0) {
      Emit("response.created", {{"response", Whole("in_progress")}}, events);
      Emit("response.in_progress", {{"response", Whole("in_progress")}},
           events);
    }
    ParsedText text;
    parser_->Push(message.text(), text);
    if (message.has_summary()) parser_->Finish(text);
    AddText(OutputItem::Kind::kReasoning, text.reasoning, events);
    AddText(OutputItem::Kind::kMessage, text.content, events);
    for (const ToolCallPiece& piece : text.calls) AddCall(piece, events);
    if (message.has_summary()) {
      usage_.Add(message);
      is_cut_ = message.summary().finish_reason() == v1::FINISH_REASON_LENGTH;
      EndItem(events);
    }
    return stream_ ? events : "";
  }

  std::string Finish() override {
    const char* status = is_cut_ ? "incomplete" : "completed";
    const Json whole = Whole(status);
    if (!stream_) return ToText(whole);
    std::string events;
    Emit(is_cut_ ? "response.incomplete" : "response.completed",
         {{"response", whole}}, events);
    return events;
  }

  std::string Fail(const absl::Status& status) override {
    std::string events;
    const Json error = OpenAiError(status)["error"];
    Emit("error",
         {{"code", error["code"]},
          {"message", error["message"]},
          {"param", error["param"]}},
         events);
    return events;
  }

 private:
  using Kind = OutputItem::Kind;

  void Emit(const std::string& type, Json data, std::string& events) {
    Json event = {{"type", type}, {"sequence_number", sequence_++}};
    event.update(data);
    events += NamedEvent(type, event);
  }

  // An event about the last item.
  void EmitOfItem(const std::string& type, Json data, std::string& events) {
    Json event = {{"item_id", items_.back().id},
                  {"output_index", items_.size() - 1}};
    event.update(data);
    Emit(type, std::move(event), events);
  }

  void BeginItem(OutputItem item, std::string& events) {
    EndItem(events);
    items_.push_back(std::move(item));
    is_open_ = true;
    Emit("response.output_item.added",
         {{"output_index", items_.size() - 1},
          {"item", items_.back().ToJson("in_progress")}},
         events);
    if (items_.back().kind == Kind::kCall) return;
    EmitOfItem("response.content_part.added",
               {{"content_index", 0}, {"part", items_.back().Part()}}, events);
  }

  void EndItem(std::string& events) {
    if (!std::exchange(is_open_, false)) return;
    const OutputItem& item = items_.back();
    if (item.kind == Kind::kCall) {
      EmitOfItem("response.function_call_arguments.done",
                 {{"name", item.name}, {"arguments", item.text}}, events);
    } else {
      Json done = {{"content_index", 0}, {"text", item.text}};
      if (item.kind == Kind::kMessage) done["logprobs"] = Json::array();
      EmitOfItem(absl::StrCat("response.", item.part_type(), ".done"),
                 std::move(done), events);
      EmitOfItem("response.content_part.done",
                 {{"content_index", 0}, {"part", item.Part()}}, events);
    }
    Emit("response.output_item.done",
         {{"output_index", items_.size() - 1},
          {"item", item.ToJson(is_cut_ ? "incomplete" : "completed")}},
         events);
  }

  void AddText(Kind kind, const std::string& text, std::string& events) {
    if (text.empty()) return;
    if (!is_open_ || items_.back().kind != kind) {
      const char* prefix = kind == Kind::kMessage ? "msg_" : "rs_";
      BeginItem({.kind = kind, .id = NewId(prefix)}, events);
    }
    OutputItem& item = items_.back();
    item.text += text;
    Json delta = {{"content_index", 0}, {"delta", text}};
    if (kind == Kind::kMessage) delta["logprobs"] = Json::array();
    EmitOfItem(absl::StrCat("response.", item.part_type(), ".delta"),
               std::move(delta), events);
  }

  void AddCall(const ToolCallPiece& piece, std::string& events) {
    if (!piece.name.empty()) {
      BeginItem({.kind = Kind::kCall,
                 .id = NewId("fc_"),
                 .call_id = NewId("call_"),
                 .name = piece.name},
                events);
    }
    if (piece.arguments.empty()) return;
    items_.back().text += piece.arguments;
    EmitOfItem("response.function_call_arguments.delta",
               {{"delta", piece.arguments}}, events);
  }

  Json Usage() const {
    return {
        {"input_tokens", usage_.prompt_tokens()},
        {"input_tokens_details",
         {{"cached_tokens", usage_.cached_tokens()},
          {"cache_write_tokens", 0}}},
        {"output_tokens", usage_.completion_tokens()},
        {"output_tokens_details", {{"reasoning_tokens", 0}}},
        {"total_tokens", usage_.prompt_tokens() + usage_.completion_tokens()}};
  }

  Json Whole(const std::string& status) const {
    Json whole = {{"id", name_.id},
                  {"object", "response"},
                  {"created_at", name_.created},
                  {"status", status},
                  {"error", nullptr},
                  {"incomplete_details", nullptr},
                  {"model", name_.model},
                  {"output", Json::array()},
                  {"parallel_tool_calls", parallel_},
                  {"temperature", temperature_},
                  {"top_p", top_p_},
                  {"tool_choice", tool_choice_},
                  {"tools", tools_},
                  {"metadata", Json::object()},
                  {"store", false},
                  {"usage", nullptr}};
    if (status == "in_progress") return whole;
    for (const OutputItem& item : items_) {
      whole["output"].push_back(item.ToJson("completed"));
    }
    if (is_cut_) {
      whole["incomplete_details"] = {{"reason", "max_output_tokens"}};
    }
    whole["usage"] = Usage();
    whole["espalier"] = usage_.Espalier();
    return whole;
  }

  const bool stream_;
  const bool parallel_;
  const Json tools_;
  const Json tool_choice_;
  const float temperature_;
  const float top_p_;
  const AnswerName name_;
  UsageSum usage_;
  const std::unique_ptr<OutputParser> parser_;
  std::vector<OutputItem> items_;
  bool is_open_ = false;  // the last item goes on
  bool is_cut_ = false;   // by the limit of tokens
  int64_t sequence_ = 0;
};

}  // namespace

std::unique_ptr<AnswerWriter> NewResponsesWriter(const ApiRequest& request,
                                                 AnswerName name) {
  return std::make_unique<ResponsesWriter>(request, std::move(name));
}

}  // namespace espalier::coordinator
