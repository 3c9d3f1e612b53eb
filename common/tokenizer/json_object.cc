#include "common/tokenizer/json_object.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace espalier {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = 64;

// The deepest nesting in `text`, which need not be well formed.
int Depth(std::string_view text) {
  int depth = 0;
  int deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return deepest;
}

}  // namespace

absl::Status CheckJsonDepth(std::string_view text) {
  if (Depth(text) <= kMaxDepth) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("JSON nested deeper than ", kMaxDepth, " levels"));
}

absl::StatusOr<json> ParseJson(std::string_view text) {
  RETURN_IF_ERROR(CheckJsonDepth(text));
  try {
    return json::parse(text);
  } catch (const json::parse_error& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("not valid JSON at byte ", error.byte));
  } catch (const json::exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("not valid JSON: ", error.what()));
  }
}

absl::Status WrongType(std::string_view path, std::string_view expected,
                       const json& value) {
  return absl::InvalidArgumentError(
      absl::StrCat(std::string(path), ": must be ", std::string(expected),
                   ", but is of type ", value.type_name()));
}

absl::StatusOr<JsonObject> JsonObject::Of(const json& value, std::string path) {
  if (!value.is_object()) {
    return WrongType(path.empty() ? "document" : path, "an object", value);
  }
  return JsonObject(&value, std::move(path));
}

std::string JsonObject::PathOf(std::string_view name) const {
  return path_.empty() ? std::string(name)
                       : absl::StrCat(path_, ".", std::string(name));
}

const json* JsonObject::Find(std::string_view name) const {
  auto found = value_->find(name);
  return found == value_->end() || found->is_null() ? nullptr : &*found;
}

absl::StatusOr<bool> JsonObject::Bool(std::string_view name) const {
  const json* field = Find(name);
  if (field == nullptr) return false;
  if (!field->is_boolean()) {
    return WrongType(PathOf(name), "true or false", *field);
  }
  return *field->get_ptr<const bool*>();
}

absl::StatusOr<std::string> JsonObject::String(std::string_view name) const {
  const json* field = Find(name);
  if (field == nullptr) return std::string();
  if (!field->is_string()) return WrongType(PathOf(name), "a string", *field);
  return *field->get_ptr<const std::string*>();
}

absl::StatusOr<const json*> JsonObject::Require(std::string_view name) const {
  const json* field = Find(name);
  if (field != nullptr) return field;
  return absl::InvalidArgumentError(absl::StrCat(PathOf(name), ": is missing"));
}

absl::StatusOr<int64_t> JsonObject::Integer(std::string_view name) const {
  ASSIGN_OR_RETURN(const json* field, Require(name));
  if (!field->is_number_integer()) {
    return WrongType(PathOf(name), "an integer", *field);
  }
  return field->get<int64_t>();
}

absl::StatusOr<JsonObject> JsonObject::Object(std::string_view name) const {
  ASSIGN_OR_RETURN(const json* field, Require(name));
  return Of(*field, PathOf(name));
}

absl::StatusOr<const json*> JsonObject::Array(std::string_view name) const {
  ASSIGN_OR_RETURN(const json* field, Require(name));
  if (!field->is_array()) return WrongType(PathOf(name), "an array", *field);
  return field;
}

}  // namespace espalier
