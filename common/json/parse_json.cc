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

// The deepest nesting in `text`, which need not be well-formed. Known before
// the parser runs, as parsing, and destroying what was parsed, take stack.
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

// Sees every key while the parser runs: the parser itself keeps the last of
// two equal keys and says nothing.
class KeyCheck {
 public:
  void See(Json::parse_event_t event, const Json& value) {
    if (event == Json::parse_event_t::object_start) open_.emplace_back();
    if (event == Json::parse_event_t::object_end) open_.pop_back();
    if (event != Json::parse_event_t::key) return;
    const auto& key = value.get_ref<const std::string&>();
    if (!open_.back().insert(key).second && !repeated_) {
      repeated_ = true;
      problem_ = absl::StrCat("key \"", Printable(key, /*max_bytes=*/100),
                              "\" is there twice");
    }
  }

  bool repeated() const { return repeated_; }
  const std::string& problem() const { return problem_; }

 private:
  std::vector<absl::flat_hash_set<std::string>> open_;  // keys of each object
  bool repeated_ = false;
  std::string problem_;
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
  KeyCheck keys;
  const auto see = [&keys](int, Json::parse_event_t event, Json& value) {
    keys.See(event, value);
    return true;
  };
  try {
    Json json = Json::parse(text, see);
    if (keys.repeated()) return error(keys.problem());
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

}  // namespace espalier
