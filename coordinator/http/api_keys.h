#ifndef ESPALIER_COORDINATOR_HTTP_API_KEYS_H_
#define ESPALIER_COORDINATOR_HTTP_API_KEYS_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/file_stamp.h"
#include "common/base/mutex.h"
#include "common/base/reload.h"

namespace espalier::coordinator {

// The keys that clients must show, from a file with one a line: the key itself
// (printable ASCII without spaces, at least 16 bytes) or "sha256:" and its hash
// in hexadecimal digits. A name may stand before it: that of the tenant. Empty
// lines and those that begin with '#' are skipped. The file is read again when
// it changes; if it cannot be read then, the keys stay. Only hashes are kept.
// Thread-safe.
class ApiKeys {
 public:
  static constexpr size_t kMinBytes = 16;

  // NOT_FOUND, INVALID_ARGUMENT: name the file and the line.
  static absl::StatusOr<std::unique_ptr<ApiKeys>> ReadFile(
      const std::string& path);

  // Returns the name of the key, or an empty one if it has none; nullopt: it is
  // not one of the keys. Takes the same time for every key that is shown.
  std::optional<std::string> Find(absl::string_view shown);

  // For Reload, which may call it for as long as this object lives.
  absl::StatusOr<Reload::Install> ReadAgain();

 private:
  struct Key {
    std::string name;
    std::string hash;  // 32 bytes
  };

  explicit ApiKeys(std::string path) : path_(std::move(path)) {}
  static absl::StatusOr<std::vector<Key>> Read(const std::string& path);
  void ReadAgainIfChanged() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string path_;
  Mutex mutex_;
  FileStamp stamp_ ABSL_GUARDED_BY(mutex_);
  std::vector<Key> keys_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_HTTP_API_KEYS_H_
