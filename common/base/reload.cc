#include "common/base/reload.h"

#include "common/base/status_macros.h"
#include "common/base/status_prefix.h"

namespace espalier {

void Reload::Add(std::string field, Read read) {
  Add([field = std::move(field), read = std::move(read)] {
    return WithPrefix(field, read());
  });
}

absl::Status Reload::Run() const {
  std::vector<Install> installs;
  for (const Read& read : reads_) {
    ASSIGN_OR_RETURN(installs.emplace_back(), read());
  }
  for (const Install& install : installs) install();
  return absl::OkStatus();
}

}  // namespace espalier
