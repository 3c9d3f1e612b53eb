#ifndef ESPALIER_COMMON_TLS_CERTIFICATE_FILES_H_
#define ESPALIER_COMMON_TLS_CERTIFICATE_FILES_H_

#include <array>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/file_stamp.h"
#include "common/base/mutex.h"

namespace espalier {

// PEM files of one side of TLS. Empty: that side has none.
struct CertificatePaths {
  std::string certificate;  // its own first, then those that lead to a root
  std::string key;          // of `certificate`, without a passphrase
  std::string ca;           // authorities that sign the other side's
};

// Holds what the files contain, in PEM.
struct Certificates {
  std::string certificate = {};
  std::string key = {};
  std::string ca = {};
  absl::Time expires = absl::InfiniteFuture();  // `certificate`'s own
};

// INVALID_ARGUMENT: something cannot be parsed, the key is not the
// certificate's, or the certificate is not valid at `now`. Sets `expires`.
absl::Status CheckCertificates(Certificates& content, absl::Time now);

// Certificates in files that may be replaced at any time, in any order: what is
// in force is replaced as a whole, when all files fit together. Thread-safe.
class CertificateFiles {
 public:
  static constexpr size_t kMaxBytes = 1 << 20;  // of a file

  // NOT_FOUND, INVALID_ARGUMENT: name the file.
  static absl::StatusOr<std::shared_ptr<CertificateFiles>> Open(
      CertificatePaths paths);

  // Returns what is in force; another pointer than before if that has changed.
  // Looks at the files' times at most once a second. Files that do not fit are
  // reported in the log once, and change nothing.
  std::shared_ptr<const Certificates> Current(absl::Time now = absl::Now());

 private:
  using Stamps = std::array<FileStamp, 3>;

  explicit CertificateFiles(CertificatePaths paths)
      : paths_(std::move(paths)) {}
  absl::StatusOr<std::shared_ptr<const Certificates>> Read() const;
  Stamps StampsNow() const;
  void ReadAgain() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const CertificatePaths paths_;
  Mutex mutex_;
  absl::Time next_look_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  Stamps stamps_ ABSL_GUARDED_BY(mutex_);
  std::string last_error_ ABSL_GUARDED_BY(mutex_);  // in the log already
  std::shared_ptr<const Certificates> current_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_TLS_CERTIFICATE_FILES_H_
