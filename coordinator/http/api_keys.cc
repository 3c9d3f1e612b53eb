#include "coordinator/http/api_keys.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/printable.h"
#include "common/base/status_macros.h"
#include "common/obs/log.h"

namespace espalier::coordinator {
namespace {

constexpr char kHashed[] = "sha256:";
constexpr size_t kMaxName = 128;

std::string Sha256(absl::string_view text) {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

// The hash of the key that a text gives.
absl::StatusOr<std::string> HashOf(absl::string_view line) {
  if (absl::ConsumePrefix(&line, kHashed)) {
    const bool is_hex =
        line.size() == 2 * SHA256_DIGEST_LENGTH &&
        std::all_of(line.begin(), line.end(), absl::ascii_isxdigit);
    if (is_hex) return absl::HexStringToBytes(line);
    return absl::InvalidArgumentError("a hash has 64 hexadecimal digits");
  }
  if (line.size() < ApiKeys::kMinBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a key of ", line.size(),
                                                   " bytes, must be at least ",
                                                   ApiKeys::kMinBytes));
  }
  if (!std::all_of(line.begin(), line.end(), absl::ascii_isgraph)) {
    return absl::InvalidArgumentError(
        "a key is printable ASCII without spaces");
  }
  return Sha256(line);
}

// Parts a line "KEY" or "NAME KEY".
std::pair<absl::string_view, absl::string_view> NameAndKey(
    absl::string_view line) {
  const size_t end = line.find_first_of(" \t");
  if (end == absl::string_view::npos) return {"", line};
  return {line.substr(0, end),
          absl::StripLeadingAsciiWhitespace(line.substr(end))};
}

}  // namespace

absl::StatusOr<std::vector<ApiKeys::Key>> ApiKeys::Read(
    const std::string& path) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read ", path));
  std::vector<Key> keys;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    const absl::string_view text = absl::StripAsciiWhitespace(line);
    if (text.empty() || text[0] == '#') continue;
    const auto [name, key] = NameAndKey(text);
    absl::StatusOr<std::string> hash = HashOf(key);
    if (name.size() > kMaxName || !IsPrintable(name)) {
      hash = absl::InvalidArgumentError(
          "the name has control characters or more than 128 bytes");
    }
    if (!hash.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ":", number, ": ", hash.status().message()));
    }
    keys.push_back({std::string(name), *hash});
  }
  if (!keys.empty()) return keys;
  return absl::InvalidArgumentError(absl::StrCat(path, ": has no key"));
}

absl::StatusOr<std::unique_ptr<ApiKeys>> ApiKeys::ReadFile(
    const std::string& path) {
  std::unique_ptr<ApiKeys> keys(new ApiKeys(path));
  MutexLock lock(&keys->mutex_);
  keys->stamp_ = FileStamp::Of(path);
  ASSIGN_OR_RETURN(keys->keys_, Read(path));
  return keys;
}

void ApiKeys::ReadAgainIfChanged() {
  const FileStamp stamp = FileStamp::Of(path_);
  if (stamp == stamp_) return;
  stamp_ = stamp;
  auto keys = Read(path_);
  if (keys.ok()) {
    keys_ = *std::move(keys);
    LogInfo(absl::StrCat("HTTP: read ", keys_.size(), " keys again"));
  } else {
    LogWarning(absl::StrCat("HTTP: the keys stay as they are: ",
                            keys.status().message()));
  }
}

absl::StatusOr<Reload::Install> ApiKeys::ReadAgain() {
  const FileStamp stamp = FileStamp::Of(path_);
  ASSIGN_OR_RETURN(auto keys, Read(path_));
  return [this, stamp, keys = std::move(keys)] {
    MutexLock lock(&mutex_);
    stamp_ = stamp;
    keys_ = keys;
  };
}

std::optional<std::string> ApiKeys::Find(absl::string_view shown) {
  const std::string hash = Sha256(shown);
  MutexLock lock(&mutex_);
  ReadAgainIfChanged();
  const Key* found = nullptr;
  for (const Key& known : keys_) {
    const bool same =
        CRYPTO_memcmp(known.hash.data(), hash.data(), hash.size()) == 0;
    if (same && found == nullptr) found = &known;
  }
  if (found == nullptr) return std::nullopt;
  return found->name;
}

}  // namespace espalier::coordinator
