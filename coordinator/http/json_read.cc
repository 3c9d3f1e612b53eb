#include "coordinator/http/json_read.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/base/printable.h"
#include "common/base/status_macros.h"
#include "common/json/ordered_json.h"
#include "common/speculation/request_errors.h"

namespace espalier::coordinator {
namespace {

// How many values `text` has at most, whether it is JSON or not. Known before
// the parser runs, as a value takes more memory than its bytes.
int64_t NumValues(const std::string& text) {
  int64_t count = 1;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\') ++i;
    if (c == '"') in_string = !in_string;
    if (!in_string && (c == ',' || c == '[' || c == '{')) ++count;
  }
  return count;
}

}  // namespace

absl::StatusOr<Json> ReadBody(const std::string& body) {
  const int64_t values = NumValues(body);
  if (values > kMaxValues) {
    return FieldError("body",
                      absl::StrCat(values, " values, limit ", kMaxValues));
  }
  absl::StatusOr<Json> json = ParseOrderedJson(body);
  if (!json.ok()) return FieldError("body", json.status().message());
  if (!json->is_object()) return FieldError("body", "must be a JSON object");
  return json;
}

absl::StatusOr<double> ReadNumber(absl::string_view field, const Json& json) {
  if (!json.is_number() || !std::isfinite(json.get<double>())) {
    return FieldError(field, "must be a number");
  }
  return json.get<double>();
}

absl::StatusOr<int64_t> ReadInteger(absl::string_view field, const Json& json,
                                    int64_t least, int64_t most) {
  // Some clients write 3.0.
  const bool is_whole = json.is_number_integer() ||
                        (json.is_number_float() &&
                         json.get<double>() == std::floor(json.get<double>()) &&
                         std::fabs(json.get<double>()) < 9e15);
  if (!is_whole) return FieldError(field, "must be an integer");
  const bool is_huge =
      json.is_number_unsigned() &&
      json.get<uint64_t>() >
          static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (is_huge || json.get<int64_t>() < least || json.get<int64_t>() > most) {
    return FieldError(
        field, absl::StrCat(ToText(json), " is not in ", least, " .. ", most));
  }
  return json.get<int64_t>();
}

absl::StatusOr<bool> ReadBool(absl::string_view field, const Json& json) {
  if (!json.is_boolean()) return FieldError(field, "must be true or false");
  return json.get<bool>();
}

absl::StatusOr<std::string> ReadText(absl::string_view field,
                                     const Json& json) {
  if (!json.is_string()) return FieldError(field, "must be a text");
  return json.get<std::string>();
}

absl::StatusOr<std::vector<std::string>> ReadTexts(absl::string_view field,
                                                   const Json& json) {
  std::vector<std::string> texts;
  if (json.is_string()) return std::vector{json.get<std::string>()};
  if (!json.is_array()) return FieldError(field, "must be a list of texts");
  for (size_t i = 0; i < json.size(); ++i) {
    ASSIGN_OR_RETURN(texts.emplace_back(), ReadText(Item(field, i), json[i]));
  }
  return texts;
}

absl::StatusOr<std::vector<uint32_t>> ReadTokens(absl::string_view field,
                                                 const Json& json) {
  constexpr int64_t kMax = std::numeric_limits<uint32_t>::max();
  if (!json.is_array()) return FieldError(field, "must be a list of token ids");
  std::vector<uint32_t> tokens;
  tokens.reserve(json.size());
  for (const Json& item : json) {
    const auto token = ReadInteger(field, item, 0, kMax);
    if (!token.ok()) return token.status();
    tokens.push_back(static_cast<uint32_t>(*token));
  }
  return tokens;
}

absl::Status CheckMessageList(absl::string_view field, const Json& json) {
  if (!json.is_array() || json.empty()) {
    return FieldError(field, "must be a list with entries");
  }
  if (json.size() <= kMaxMessages) return absl::OkStatus();
  return FieldError(
      field, absl::StrCat(json.size(), " entries, limit ", kMaxMessages));
}

const Json* Find(const Json& object, absl::string_view name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(std::string(name));
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

absl::Status CheckMembers(absl::string_view field, const Json& json,
                          absl::Span<const absl::string_view> known) {
  if (!json.is_object()) return FieldError(field, "must be an object");
  for (const auto& [name, value] : json.items()) {
    const bool is_known =
        std::find(known.begin(), known.end(), name) != known.end();
    if (is_known || value.is_null()) continue;
    return FieldError(absl::StrCat(field, ".", Printable(name, 64)),
                      "this server does not know the field");
  }
  return absl::OkStatus();
}

std::string Item(absl::string_view field, size_t index) {
  return absl::StrCat(field, "[", index, "]");
}

}  // namespace espalier::coordinator
