#include "common/rpc/role_file.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/printable.h"
#include "common/base/status_macros.h"
#include "common/base/status_prefix.h"
#include "common/obs/log.h"

namespace espalier {
namespace {

constexpr absl::string_view kHash = "sha256:";
constexpr absl::string_view kCertificate = "certificate:";
constexpr size_t kMaxName = 128;
constexpr Role kRoles[] = {Role::kClient, Role::kOperator, Role::kService,
                           Role::kScrape};

std::string HashOf(absl::string_view token) {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return absl::StrCat(kHash, absl::BytesToHexString(digest));
}

bool IsName(absl::string_view text) {
  return !text.empty() && text.size() <= kMaxName && IsPrintable(text);
}

absl::StatusOr<std::string> CredentialOf(absl::string_view text) {
  absl::string_view rest = text;
  if (absl::ConsumePrefix(&rest, kHash)) {
    const bool is_hash =
        rest.size() == 2 * SHA256_DIGEST_LENGTH &&
        std::all_of(rest.begin(), rest.end(), absl::ascii_isxdigit);
    if (is_hash) return absl::AsciiStrToLower(text);
    return absl::InvalidArgumentError("a hash has 64 hexadecimal digits");
  }
  if (absl::ConsumePrefix(&rest, kCertificate) && IsName(rest)) {
    return std::string(text);
  }
  return absl::InvalidArgumentError(
      "the credential is not sha256:HASH or certificate:NAME");
}

absl::StatusOr<Principal> PrincipalOf(absl::string_view line) {
  const std::vector<absl::string_view> words =
      absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
  if (words.size() != 3) {
    return absl::InvalidArgumentError("a line is ROLE NAME CREDENTIAL");
  }
  const auto* const role =
      std::find_if(std::begin(kRoles), std::end(kRoles),
                   [&](Role known) { return RoleName(known) == words[0]; });
  if (role == std::end(kRoles)) {
    return absl::InvalidArgumentError(
        "the role is not client, operator, service or scrape");
  }
  if (!IsName(words[1])) {
    return absl::InvalidArgumentError(
        "the name has control characters or more than 128 bytes");
  }
  Principal caller = {.role = *role, .name = std::string(words[1])};
  ASSIGN_OR_RETURN(caller.credential, CredentialOf(words[2]));
  return caller;
}

// All bytes are compared, whichever differ.
bool SameCredential(absl::string_view a, absl::string_view b) {
  return a.size() == b.size() &&
         CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace

absl::string_view RoleName(Role role) {
  switch (role) {
    case Role::kClient:
      return "client";
    case Role::kOperator:
      return "operator";
    case Role::kService:
      return "service";
    case Role::kScrape:
      return "scrape";
  }
  return "";
}

absl::StatusOr<std::vector<Principal>> ParseRoles(absl::string_view text) {
  std::vector<Principal> callers;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line[0] == '#') continue;
    ASSIGN_OR_RETURN(
        callers.emplace_back(),
        WithPrefix(absl::StrCat("line ", number), PrincipalOf(line)));
  }
  return callers;
}

absl::StatusOr<std::unique_ptr<RoleFile>> RoleFile::Read(
    const std::string& path) {
  std::unique_ptr<RoleFile> file(new RoleFile(path));
  MutexLock lock(&file->mutex_);
  file->stamp_ = FileStamp::Of(path);
  ASSIGN_OR_RETURN(file->callers_, file->ReadLines());
  return file;
}

absl::StatusOr<std::vector<Principal>> RoleFile::ReadLines() const {
  std::ifstream file(path_, std::ios::binary);
  if (!file) {
    return absl::NotFoundError(
        absl::StrCat("cannot read ", path_, ": ", std::strerror(errno)));
  }
  std::string text(kMaxBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kMaxBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, " has more than ", kMaxBytes, " bytes"));
  }
  return WithPrefix(path_, ParseRoles(text));
}

void RoleFile::ReadAgainIfChanged() {
  const FileStamp stamp = FileStamp::Of(path_);
  if (stamp == stamp_) return;
  stamp_ = stamp;
  auto callers = ReadLines();
  if (callers.ok()) {
    callers_ = *std::move(callers);
    LogInfo(absl::StrCat("read ", callers_.size(), " credentials of ", path_));
  } else {
    LogWarning(
        absl::StrCat("roles stay as they are: ", callers.status().message()));
  }
}

absl::StatusOr<Reload::Install> RoleFile::ReadAgain() {
  const FileStamp stamp = FileStamp::Of(path_);
  ASSIGN_OR_RETURN(auto callers, ReadLines());
  return [this, stamp, callers = std::move(callers)] {
    MutexLock lock(&mutex_);
    stamp_ = stamp;
    callers_ = callers;
  };
}

std::optional<Principal> RoleFile::FindToken(absl::string_view shown) {
  const std::string hash = HashOf(shown);
  MutexLock lock(&mutex_);
  ReadAgainIfChanged();
  std::optional<Principal> found;
  for (const Principal& known : callers_) {
    if (SameCredential(known.credential, hash) && !found) found = known;
  }
  return found;
}

std::optional<Principal> RoleFile::FindCertificate(
    absl::Span<const std::string> names) {
  MutexLock lock(&mutex_);
  ReadAgainIfChanged();
  for (const Principal& known : callers_) {
    absl::string_view name = known.credential;
    if (absl::ConsumePrefix(&name, kCertificate) &&
        std::find(names.begin(), names.end(), name) != names.end()) {
      return known;
    }
  }
  return std::nullopt;
}

bool RoleFile::Has(const Principal& caller) {
  MutexLock lock(&mutex_);
  ReadAgainIfChanged();
  return std::any_of(callers_.begin(), callers_.end(),
                     [&](const Principal& known) {
                       return known.role == caller.role &&
                              known.credential == caller.credential;
                     });
}

}  // namespace espalier
