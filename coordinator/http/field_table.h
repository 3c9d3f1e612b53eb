// The fields of the bodies of the HTTP API, in tables: each row says how a
// field is followed, or why it is refused. Parsers and the documentation read
// them.
#ifndef ESPALIER_COORDINATOR_HTTP_FIELD_TABLE_H_
#define ESPALIER_COORDINATOR_HTTP_FIELD_TABLE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "coordinator/http/api_error.h"
#include "coordinator/http/json_read.h"
#include "coordinator/http/output_parser.h"
#include "coordinator/http/reasoning.h"
#include "coordinator/http/tools.h"
#include "espalier/v1/inference.pb.h"

namespace espalier::coordinator {

// Holds what a client asks for over HTTP, whichever API it speaks.
struct ApiRequest {
  v1::GenerateRequest generate;
  // The prompts of /v1/completions. Each gets a call of its own.
  std::vector<v1::GenerateRequest> prompts = {};
  bool stream = false;
  bool include_usage = false;  // in a stream: a last event with the usage
  bool logprobs = false;
  bool prompt_logprobs = false;
  bool return_token_ids = false;
  bool return_token_texts = false;  // of /tokenize
  FieldNames names = {};            // for errors of our own API
  // Only chats have the fields from here on.
  ToolUse tools = {};
  // `tools` and `tool_choice` as the client wrote them; null: not there.
  Json given_tools = {};
  Json given_choice = {};
  std::optional<bool> thinking = {};  // unset: as the model's template has it
  // Reads the text of an output (PlanChat).
  std::function<std::unique_ptr<OutputParser>()> new_parser = NewPlainParser;
  // For people: parts of the request that are followed in another way.
  std::vector<std::string> warnings = {};
};

struct Field {
  absl::string_view name;
  // Reads the value, which is not null. Null: the field is refused.
  absl::Status (*follow)(absl::string_view name, const Json& value,
                         ApiRequest& out);
  absl::string_view meaning;  // or why it is refused
};

using FieldTable = absl::Span<const Field>;

// Reads all fields of `body` by the rows of `tables`. FieldErrors: a field that
// is refused, unknown, or has a wrong value.
absl::Status ReadFields(const Json& body, absl::Span<const FieldTable> tables,
                        ApiRequest& out);

// Errors of our own API about the chat's messages from `first` on name the
// client's field `path`, which they come from.
void NameMessages(int first, const std::string& path, ApiRequest& out);
// As NameMessages, for a field that is the text of the chat's last message.
void NameLastMessage(absl::string_view field, ApiRequest& out);

// A row's function for `model`.
absl::Status FollowModel(absl::string_view name, const Json& value,
                         ApiRequest& out);

// A row's function for a field that changes nothing here.
absl::Status Accept(absl::string_view name, const Json& value, ApiRequest& out);

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_HTTP_FIELD_TABLE_H_
