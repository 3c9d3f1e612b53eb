#ifndef ESPALIER_COMMON_RPC_TOKEN_FILE_H_
#define ESPALIER_COMMON_RPC_TOKEN_FILE_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/base/reload.h"
#include "common/rpc/access_token.h"

namespace espalier {

// The token of a file that can be read again. Thread-safe.
class TokenFile {
 public:
  // Errors as AccessToken::ReadFile's. An empty path: the empty token, for
  // ever.
  static absl::StatusOr<std::shared_ptr<TokenFile>> Open(std::string path);

  bool empty() const { return path_.empty(); }
  struct Version {
    AccessToken token;
    int number = 0;  // grows when another token comes into force
  };
  Version version() const;

  // For Reload, which may call it for as long as this object lives.
  absl::StatusOr<Reload::Install> ReadAgain();

 private:
  explicit TokenFile(std::string path) : path_(std::move(path)) {}

  const std::string path_;
  mutable Mutex mutex_;
  Version version_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_TOKEN_FILE_H_
