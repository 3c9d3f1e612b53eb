#include "coordinator/http/api_error.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "common/json/ordered_json.h"
#include "common/speculation/request_errors.h"

namespace espalier::coordinator {
namespace {

struct Kind {
  absl::StatusCode code;
  int http;
  const char* openai;
  const char* anthropic;
};
constexpr Kind kKinds[] = {
    {absl::StatusCode::kInvalidArgument, 400, "invalid_request_error",
     "invalid_request_error"},
    {absl::StatusCode::kUnauthenticated, 401, "authentication_error",
     "authentication_error"},
    {absl::StatusCode::kPermissionDenied, 403, "permission_error",
     "permission_error"},
    {absl::StatusCode::kNotFound, 404, "invalid_request_error",
     "not_found_error"},
    {absl::StatusCode::kAlreadyExists, 409, "invalid_request_error",
     "invalid_request_error"},
    {absl::StatusCode::kResourceExhausted, 429, "rate_limit_error",
     "rate_limit_error"},
    {absl::StatusCode::kCancelled, 499, "cancelled", "api_error"},
    {absl::StatusCode::kUnimplemented, 501, "server_error", "api_error"},
    {absl::StatusCode::kUnavailable, 503, "server_error", "overloaded_error"},
    {absl::StatusCode::kDeadlineExceeded, 504, "server_error", "timeout_error"},
};
constexpr Kind kOther = {absl::StatusCode::kInternal, 500, "server_error",
                         "api_error"};

const Kind& KindOf(const absl::Status& status) {
  for (const Kind& kind : kKinds) {
    if (kind.code == status.code()) return kind;
  }
  return kOther;
}

// Names of our own API -> names over HTTP, of a field or of what it begins
// with. The first one that fits counts.
constexpr std::pair<const char*, const char*> kNames[] = {
    {"chat.template_args", "chat_template_kwargs"},
    {"chat.end", "continue_final_message"},
    {"chat.", ""},
    {"chat", "messages"},
    {"token_ids", "prompt"},
    {"structured_output", "structured_outputs"},
    {"speculation.", "espalier."},
};

// `field` by the first name of `names` that fits.
template <typename Names>
std::string Renamed(absl::string_view field, const Names& names) {
  for (const auto& [ours, theirs] : names) {
    absl::string_view rest = field;
    if (!absl::ConsumePrefix(&rest, ours)) continue;
    const bool is_whole = absl::EndsWith(ours, ".") || rest.empty() ||
                          rest[0] == '.' || rest[0] == '[';
    if (is_whole) return absl::StrCat(theirs, rest);
  }
  return std::string(field);
}

std::string HttpName(absl::string_view field) { return Renamed(field, kNames); }

// The message, with the name of its field over HTTP.
std::string MessageOf(const absl::Status& status) {
  absl::string_view message = status.message();
  const std::optional<std::string> field = FieldOf(status);
  if (!field || !absl::ConsumePrefix(&message, *field)) {
    return std::string(message);
  }
  return absl::StrCat(HttpName(*field), message);
}

}  // namespace

int HttpStatus(const absl::Status& status) { return KindOf(status).http; }

absl::Status WithClientNames(absl::Status status, const FieldNames& names) {
  const std::optional<std::string> field = FieldOf(status);
  absl::string_view what = status.message();
  if (!field || !absl::ConsumePrefix(&what, *field)) return status;
  const std::string name = Renamed(*field, names);
  if (name == *field) return status;
  absl::Status renamed(status.code(), absl::StrCat(name, what));
  return WithReason(WithField(std::move(renamed), name), ReasonOf(status));
}

Json OpenAiError(const absl::Status& status) {
  Json error = {{"message", MessageOf(status)},
                {"type", KindOf(status).openai},
                {"param", nullptr},
                {"code", ReasonOf(status)}};
  if (const auto field = FieldOf(status)) error["param"] = HttpName(*field);
  return {{"error", error}};
}

Json AnthropicError(const absl::Status& status) {
  return {
      {"type", "error"},
      {"error",
       {{"type", KindOf(status).anthropic}, {"message", MessageOf(status)}}}};
}

http::Response ErrorResponse(const absl::Status& status, ErrorShape shape) {
  http::Response response = {.status = HttpStatus(status),
                             .body = ToText(shape(status))};
  if (const auto delay = RetryAfter(status)) {
    const int64_t ms =
        absl::ToInt64Milliseconds(absl::Ceil(*delay, absl::Milliseconds(1)));
    response.headers.emplace_back(
        "Retry-After", absl::StrCat(std::max<int64_t>(1, (ms + 999) / 1000)));
    response.headers.emplace_back("Retry-After-Ms", absl::StrCat(ms));
  }
  if (absl::IsUnauthenticated(status)) {
    response.headers.emplace_back("WWW-Authenticate", "Bearer");
  }
  return response;
}

}  // namespace espalier::coordinator
