#include "common/base/reload.h"

#include "common/base/status_macros.h"

namespace espalier {

absl::Status Reload::Run() const {
  std::vector<Install> installs;
  for (const Read& read : reads_) {
    ASSIGN_OR_RETURN(installs.emplace_back(), read());
  }
  for (const Install& install : installs) install();
  return absl::OkStatus();
}

}  // namespace espalier
