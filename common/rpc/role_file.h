#ifndef ESPALIER_COMMON_RPC_ROLE_FILE_H_
#define ESPALIER_COMMON_RPC_ROLE_FILE_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/base/file_stamp.h"
#include "common/base/mutex.h"
#include "common/base/reload.h"

namespace espalier {

// Names what a caller may do.
enum class Role {
  kClient,    // generate, and ask about the model and the load
  kOperator,  // the same, Admin, the server's description, its pages
  kService,   // a coordinator, towards drafters and verifiers
  kScrape,    // read the metrics
};

absl::string_view RoleName(Role role);

// A caller that has shown a credential.
struct Principal {
  Role role = Role::kClient;
  std::string name = {};        // for people and the audit
  std::string credential = {};  // as the file has it
};

// Reads a file's text, one credential a line:
//   ROLE NAME sha256:HASH        the SHA-256 of a token, in 64 hexadecimal
//   digits ROLE NAME certificate:NAME   a certificate with this name (a
//   subjectAltName)
// Lines that are empty or begin with '#' are skipped. INVALID_ARGUMENT names
// the line.
absl::StatusOr<std::vector<Principal>> ParseRoles(absl::string_view text);

// Such a file. Each method looks whether it has changed. It is replaced as a
// whole: if it is not valid then, the roles stay. Thread-safe.
class RoleFile {
 public:
  static constexpr size_t kMaxBytes = 1 << 20;

  // NOT_FOUND, INVALID_ARGUMENT: name the file, and the line.
  static absl::StatusOr<std::unique_ptr<RoleFile>> Read(
      const std::string& path);

  // The time does not depend on the token that was shown.
  std::optional<Principal> FindToken(absl::string_view shown);
  // `names`: of a certificate that was verified. The first line with one of
  // them counts.
  std::optional<Principal> FindCertificate(absl::Span<const std::string> names);
  // For Reload, which may call it for as long as this object lives.
  absl::StatusOr<Reload::Install> ReadAgain();
  // Returns true if the file still has this caller.
  bool Has(const Principal& caller);

 private:
  explicit RoleFile(std::string path) : path_(std::move(path)) {}
  absl::StatusOr<std::vector<Principal>> ReadLines() const;
  void ReadAgainIfChanged() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string path_;
  Mutex mutex_;
  FileStamp stamp_ ABSL_GUARDED_BY(mutex_);
  std::vector<Principal> callers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_ROLE_FILE_H_
