#include "common/model/files/gguf_path.h"

#include <filesystem>
#include <set>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;

constexpr const char* kEnding = ".gguf";

// Returns whether the file is a part of a split file, and not the first one.
bool IsLaterPart(const std::string& name) {
  constexpr size_t kEndingBytes = 20;  // "-00002-of-00003.gguf"
  if (name.size() < kEndingBytes) return false;
  const std::string ending = name.substr(name.size() - kEndingBytes);
  int64_t part = 0, count = 0;
  return absl::SimpleAtoi(ending.substr(1, 5), &part) &&
         absl::SimpleAtoi(ending.substr(10, 5), &count) &&
         ending == GgufPartEnding(part, count) && part > 1;
}

// "owner/name" may be a model of Hugging Face.
std::string Advice(const std::string& path) {
  const size_t slash = path.find('/');
  const bool is_id =
      slash != std::string::npos && slash > 0 && slash + 1 < path.size() &&
      path.find('/', slash + 1) == std::string::npos && path[0] != '.' &&
      path[0] != '~' && fs::path(path).extension() != kEnding;
  if (!is_id) return "";
  const std::string name = path.substr(slash + 1);
  return absl::StrCat(
      ". If this is a model of Hugging Face, download it and give its "
      "folder:\n",
      "  pip install huggingface_hub && hf download ", path, " --local-dir ",
      name);
}

}  // namespace

std::string GgufPartEnding(int64_t part, int64_t count) {
  return absl::StrCat("-", absl::Dec(part, absl::kZeroPad5), "-of-",
                      absl::Dec(count, absl::kZeroPad5), kEnding);
}

absl::StatusOr<std::optional<std::string>> GgufPathOf(const std::string& path) {
  std::error_code none_there;
  if (!fs::exists(path, none_there)) {
    return absl::NotFoundError(absl::StrCat("cannot read ", path,
                                            ": there is no such file or folder",
                                            Advice(path)));
  }
  if (!fs::is_directory(path, none_there)) {
    if (fs::path(path).extension() == kEnding) return path;
    return std::nullopt;
  }
  if (fs::exists(fs::path(path) / "config.json", none_there)) {
    return std::nullopt;
  }
  std::set<std::string> found;
  for (const auto& entry : fs::directory_iterator(path, none_there)) {
    if (entry.path().extension() == kEnding &&
        !IsLaterPart(entry.path().filename())) {
      found.insert(entry.path());
    }
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
