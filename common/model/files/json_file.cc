#include "common/model/files/json_file.h"

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/model/files/mapped_file.h"

namespace espalier {
namespace {

constexpr int kMaxDepth = 64;
constexpr int64_t kMaxFileBytes = int64_t{64} << 20;

// Sees every key while the parser runs: the parser itself keeps the last of
// two equal keys and says nothing.
class KeyCheck {
 public:
  bool operator()(int depth, nlohmann::json::parse_event_t event,
                  const nlohmann::json& value) {
    using Event = nlohmann::json::parse_event_t;
    if (depth > kMaxDepth) too_deep_ = true;
    if (event == Event::object_start) keys_.emplace_back();
    if (event == Event::object_end && !keys_.empty()) keys_.pop_back();
    if (event == Event::key && !keys_.empty()) {
      const auto& key = value.get_ref<const std::string&>();
      if (!keys_.back().insert(key).second && repeated_.empty()) {
        repeated_ = absl::StrCat("key \"", key, "\" is there twice");
      }
    }
    return !too_deep_;
  }

  // Empty: nothing wrong.
  std::string Problem() const {
    return too_deep_ ? absl::StrCat("nested deeper than ", kMaxDepth)
                     : repeated_;
  }

 private:
  std::vector<std::set<std::string>> keys_;  // of the objects now open
  std::string repeated_;
  bool too_deep_ = false;
};

}  // namespace

absl::StatusOr<nlohmann::json> ParseJsonObject(std::string_view text,
                                               const std::string& source) {
  KeyCheck check;
  nlohmann::json json = nlohmann::json::parse(
      text.begin(), text.end(),
      [&check](int depth, nlohmann::json::parse_event_t event,
               nlohmann::json& value) { return check(depth, event, value); },
      /*allow_exceptions=*/false);
  if (!check.Problem().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": ", check.Problem()));
  }
  if (json.is_discarded()) {
    return absl::InvalidArgumentError(absl::StrCat(source, " is not JSON"));
  }
  if (!json.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, " is not a JSON object"));
  }
  return json;
}

absl::StatusOr<nlohmann::json> ReadJsonObject(const std::string& path) {
  ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  if (static_cast<int64_t>(file.bytes().size()) > kMaxFileBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is larger than ", kMaxFileBytes, " bytes"));
  }
  return ParseJsonObject(
      std::string_view(reinterpret_cast<const char*>(file.bytes().data()),
                       file.bytes().size()),
      path);
}

}  // namespace espalier
