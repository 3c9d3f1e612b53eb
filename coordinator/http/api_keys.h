#ifndef ESPALIER_COORDINATOR_HTTP_API_KEYS_H_
#define ESPALIER_COORDINATOR_HTTP_API_KEYS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/file_stamp.h"
#include "common/base/mutex.h"

namespace espalier::coordinator {

// The keys that clients must show, from a file with one a line: the key itself
// (printable ASCII without spaces, at least 16 bytes) or "sha256:" and its hash
// in hexadecimal digits. Empty lines and those that begin with '#' are skipped.
// The file is read again when it changes; if it cannot be read then, the keys
// stay. Only hashes are kept. Thread-safe.
class ApiKeys {
 public:
  static constexpr size_t kMinBytes = 16;

  // NOT_FOUND, INVALID_ARGUMENT: name the file and the line.
  static absl::StatusOr<std::unique_ptr<ApiKeys>> ReadFile(
      const std::string& path);

  // Whether it is one of the keys. Takes the same time for every key that is
  // shown.
  bool Accept(absl::string_view shown);

 private:
  using Hash = std::string;  // 32 bytes

  explicit ApiKeys(std::string path) : path_(std::move(path)) {}
  static absl::StatusOr<std::vector<Hash>> Read(const std::string& path);
  void ReadAgainIfChanged() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string path_;
  Mutex mutex_;
  FileStamp stamp_ ABSL_GUARDED_BY(mutex_);
  std::vector<Hash> hashes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_HTTP_API_KEYS_H_
