#include "common/json/parse_json.h"

#include <algorithm>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/printable.h"
#include "common/base/status_macros.h"
#include "common/json/json_value.h"

namespace espalier {
namespace {

using Json = nlohmann::json;

constexpr int kMaxDepth = 64;

// Returns the deepest nesting in `text`, which need not be well-formed. Known
// before the parser runs, as parsing, and destroying what was parsed, take
// stack.
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

// Finds a key that an object has twice: the parser keeps the last one and says
// nothing. A pass of its own, as the parser's callback takes time quadratic in
// the number of objects in an object.
class RepeatedKey final : public nlohmann::json_sax<Json> {
 public:
  // Empty: there is none. REQUIRES: `text` is JSON.
  static std::string In(std::string_view text) {
    RepeatedKey finder;
    Json::sax_parse(text, &finder);
    return finder.found_;
  }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_array(size_t) override { return true; }
  bool end_array() override { return true; }
  bool start_object(size_t) override {
    open_.emplace_back();
    return true;
  }
  bool end_object() override {
    open_.pop_back();
    return true;
  }
  bool key(string_t& key) override {
    if (open_.back().insert(key).second) return true;
    found_ = absl::StrCat("key \"", Printable(key, /*max_bytes=*/100),
                          "\" is there twice");
    return false;
  }
  bool parse_error(size_t, const std::string&,
                   const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  std::vector<absl::flat_hash_set<std::string>> open_;  // keys of each object
  std::string found_;
};

}  // namespace

absl::StatusOr<Json> ParseJson(std::string_view text,
                               const std::string& source) {
  const auto error = [&](const std::string& problem) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, source.empty() ? "" : ": ", problem));
  };
  if (Depth(text) > kMaxDepth) {
    return error(absl::StrCat("nested deeper than ", kMaxDepth, " levels"));
  }
  try {
    Json json = Json::parse(text);
    const std::string repeated = RepeatedKey::In(text);
    if (!repeated.empty()) return error(repeated);
    return json;
  } catch (const Json::parse_error& failure) {
    return error(absl::StrCat("not valid JSON at byte ", failure.byte));
  } catch (const Json::exception& failure) {
    return error(absl::StrCat("not valid JSON: ", failure.what()));
  }
}

absl::StatusOr<Json> ParseJsonObject(std::string_view text,
                                     const std::string& source) {
  ASSIGN_OR_RETURN(Json json, ParseJson(text, source));
  if (!json.is_object()) {
    return JsonValue(json, source).Error("must be a JSON object");
  }
  return json;
}

std::string ToText(const Json& json) {
  return json.dump(/*indent=*/-1, ' ', /*ensure_ascii=*/false,
                   Json::error_handler_t::replace);
}

}  // namespace espalier
