#include "common/rpc/token_file.h"

#include "common/base/status_macros.h"

namespace espalier {

absl::StatusOr<std::shared_ptr<TokenFile>> TokenFile::Open(std::string path) {
  std::shared_ptr<TokenFile> file(new TokenFile(std::move(path)));
  ASSIGN_OR_RETURN(const auto install, file->ReadAgain());
  install();
  return file;
}

TokenFile::Version TokenFile::version() const {
  MutexLock lock(&mutex_);
  return version_;
}

absl::StatusOr<Reload::Install> TokenFile::ReadAgain() {
  ASSIGN_OR_RETURN(AccessToken token, AccessToken::ReadFile(path_));
  return [this, token = std::move(token)] {
    MutexLock lock(&mutex_);
    if (token == version_.token) return;
    version_ = {token, version_.number + 1};
  };
}

}  // namespace espalier
