#ifndef ESPALIER_COMMON_TOKENIZER_JSON_OBJECT_H_
#define ESPALIER_COMMON_TOKENIZER_JSON_OBJECT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace espalier {

// INVALID_ARGUMENT: nested so deeply that parsing the text, or destroying the
// parsed value, would exhaust the stack.
absl::Status CheckJsonDepth(std::string_view text);

// INVALID_ARGUMENT: not JSON, or nested too deeply (CheckJsonDepth).
absl::StatusOr<nlohmann::json> ParseJson(std::string_view text);

// Typed access to a JSON object from outside. Null counts as an absent field.
// Every error is INVALID_ARGUMENT and names the full path of the field. Borrows
// the value.
class JsonObject {
 public:
  // `path` is empty for the document itself.
  static absl::StatusOr<JsonObject> Of(const nlohmann::json& value,
                                       std::string path);

  // Null if there is no such field.
  const nlohmann::json* Find(std::string_view name) const;

  absl::StatusOr<bool> Bool(std::string_view name) const;  // absent: false
  absl::StatusOr<std::string> String(std::string_view name) const;  // "": none
  absl::StatusOr<int64_t> Integer(std::string_view name) const;     // required
  absl::StatusOr<JsonObject> Object(std::string_view name) const;   // required
  absl::StatusOr<const nlohmann::json*> Array(
      std::string_view name) const;  // required

  std::string PathOf(std::string_view name) const;
  const nlohmann::json& value() const { return *value_; }

 private:
  JsonObject(const nlohmann::json* value, std::string path)
      : value_(value), path_(std::move(path)) {}

  absl::StatusOr<const nlohmann::json*> Require(std::string_view name) const;

  const nlohmann::json* value_;
  std::string path_;
};

// `path`: must be `expected`, but is a string / an object / ...
absl::Status WrongType(std::string_view path, std::string_view expected,
                       const nlohmann::json& value);

}  // namespace espalier

#endif  // ESPALIER_COMMON_TOKENIZER_JSON_OBJECT_H_
