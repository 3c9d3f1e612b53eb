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
#include "common/base/status_macros.h"
#include "common/obs/log.h"

namespace espalier::coordinator {
namespace {

constexpr char kHashed[] = "sha256:";

std::string Sha256(absl::string_view text) {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

// The hash that a line gives.
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

}  // namespace

absl::StatusOr<std::vector<ApiKeys::Hash>> ApiKeys::Read(
    const std::string& path) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read ", path));
  std::vector<Hash> hashes;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    const absl::string_view key = absl::StripAsciiWhitespace(line);
    if (key.empty() || key[0] == '#') continue;
    const absl::StatusOr<std::string> hash = HashOf(key);
    if (!hash.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ":", number, ": ", hash.status().message()));
    }
    hashes.push_back(*hash);
  }
  if (!hashes.empty()) return hashes;
  return absl::InvalidArgumentError(absl::StrCat(path, ": has no key"));
}

absl::StatusOr<std::unique_ptr<ApiKeys>> ApiKeys::ReadFile(
    const std::string& path) {
  std::unique_ptr<ApiKeys> keys(new ApiKeys(path));
  MutexLock lock(&keys->mutex_);
  keys->stamp_ = FileStamp::Of(path);
  ASSIGN_OR_RETURN(keys->hashes_, Read(path));
  return keys;
}

void ApiKeys::ReadAgainIfChanged() {
  const FileStamp stamp = FileStamp::Of(path_);
  if (stamp == stamp_) return;
  stamp_ = stamp;
  auto hashes = Read(path_);
  if (hashes.ok()) {
    hashes_ = *std::move(hashes);
    LogInfo(absl::StrCat("HTTP: read ", hashes_.size(), " keys again"));
  } else {
    LogWarning(absl::StrCat("HTTP: the keys stay as they are: ",
                            hashes.status().message()));
  }
}

bool ApiKeys::Accept(absl::string_view shown) {
  const std::string hash = Sha256(shown);
  MutexLock lock(&mutex_);
  ReadAgainIfChanged();
  bool found = false;
  for (const Hash& known : hashes_) {
    found |= CRYPTO_memcmp(known.data(), hash.data(), hash.size()) == 0;
  }
  return found;
}

}  // namespace espalier::coordinator
