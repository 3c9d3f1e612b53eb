#include "common/model/files/gguf_path.h"

#include <filesystem>
#include <set>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;

constexpr const char* kEnding = ".gguf";

}  // namespace

absl::StatusOr<std::optional<std::string>> GgufPathOf(const std::string& path) {
  std::error_code none_there;
  if (!fs::is_directory(path, none_there)) {
    if (fs::path(path).extension() == kEnding) return path;
    return std::nullopt;
  }
  if (fs::exists(fs::path(path) / "config.json", none_there)) {
    return std::nullopt;
  }
  std::set<std::string> found;
  for (const auto& entry : fs::directory_iterator(path, none_there)) {
    if (entry.path().extension() == kEnding) found.insert(entry.path());
  }
  if (found.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " has ", found.size(), " .gguf files, ",
                     *found.begin(), " among them: name the one to load"));
  }
  if (found.empty()) return std::nullopt;
  return *found.begin();
}

}  // namespace espalier
