// Bodies of the HTTP API: each is read as a request of every API. An error
// names a field; what is read can be written.
#include "common/base/check.h"
#include "common/speculation/request_errors.h"
#include "coordinator/http/chat_request.h"
#include "coordinator/http/completion_request.h"
#include "coordinator/http/generic_tools.h"
#include "coordinator/http/messages_request.h"
#include "coordinator/http/responses_request.h"
#include "coordinator/http/tool_format.h"
#include "tests/fuzz/fuzz_targets.h"

namespace espalier::testing {
namespace http_body_fuzz {

using coordinator::ApiRequest;

std::vector<std::string> Seeds() {
  return {
      R"({"messages": [{"role": "user", "content": [{"type": "text", "text":
          "a"}]}, {"role": "assistant", "content": null, "tool_calls": [{"id":
          "1", "function": {"name": "f", "arguments": "{}"}}]}, {"role": "tool",
          "tool_call_id": "1", "content": "b"}], "tools": [{"type": "function",
          "function": {"name": "f", "parameters": {"type": "object"}}}],
          "tool_choice": {"type": "function", "function": {"name": "f"}},
          "temperature": 0.5, "top_logprobs": 2, "logprobs": true, "n": 2})",
      R"({"prompt": ["a", [1, 2]], "max_tokens": 3, "logit_bias": {"1": -1.5},
          "stop": ["x"], "stream": true, "stream_options": {"include_usage":
          true}, "seed": -1, "espalier": {"drafters": ["d"], "max_nodes": 1},
          "response_format": {"type": "json_schema", "json_schema": {"schema":
          {}}}})",
      R"({"prompt": "a", "guided_regex": "a", "return_token_ids": true})",
      R"({"prompt": "a", "structured_outputs": {"choice": ["a"]}})",
      R"({"messages": [{"role": "assistant", "content": "a"}],
          "continue_final_message": true, "add_generation_prompt": false,
          "skip_special_tokens": false})",
      R"({"instructions": "s", "input": [{"role": "user", "content": [{"type":
          "input_text", "text": "a"}]}, {"type": "function_call", "call_id":
          "c", "name": "f", "arguments": "{}"}, {"type": "reasoning"},
          {"type": "function_call_output", "call_id": "c", "output": "r"}],
          "tools": [{"type": "function", "name": "f"}], "text": {"format":
          {"type": "json_schema", "name": "n", "schema": {}}}})",
      R"({"max_tokens": 3, "system": "s", "messages": [{"role": "user",
          "content": [{"type": "tool_result", "tool_use_id": "t", "content":
          [{"type": "text", "text": "r"}], "is_error": true}]}, {"role":
          "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f",
          "input": {"a": 1}}]}, {"role": "user", "content": "b"}], "tools":
          [{"name": "f", "input_schema": {"type": "object"}}], "tool_choice":
          {"type": "any"}, "thinking": {"type": "enabled"}})"};
}

bool Check(const absl::StatusOr<ApiRequest>& request) {
  if (!request.ok()) {
    ESPALIER_CHECK(FieldOf(request.status()).has_value());
    return false;
  }
  v1::Chat chat = request->generate.chat();
  if (coordinator::DescribeTools(chat).ok()) {
    ESPALIER_CHECK(chat.tools().empty());
  }
  const auto& format = coordinator::FormatOf("");
  (void)coordinator::ForcedCalls(format, request->tools);
  (void)coordinator::FreeCalls(format, request->tools);
  return true;
}

bool Try(std::string_view bytes) {
  const auto body = coordinator::ReadBody(std::string(bytes));
  if (!body.ok()) {
    ESPALIER_CHECK(FieldOf(body.status()).has_value());
    return false;
  }
  const bool chat = Check(coordinator::ReadChatRequest(*body));
  const bool completion = Check(coordinator::ReadCompletionRequest(*body));
  const bool message =
      Check(coordinator::ReadMessagesRequest(*body, /*generates=*/true));
  const bool response = Check(coordinator::ReadResponsesRequest(*body));
  return chat || completion || message || response;
}

}  // namespace http_body_fuzz

FuzzTarget HttpBodyTarget() {
  return {"http_body", http_body_fuzz::Seeds, http_body_fuzz::Try};
}

}  // namespace espalier::testing
