#include "common/base/reload.h"

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace espalier {

void Reload::Add(std::string field, Read read) {
  Add([field = std::move(field),
       read = std::move(read)]() -> absl::StatusOr<Install> {
    absl::StatusOr<Install> install = read();
    if (install.ok()) return install;
    return absl::Status(install.status().code(),
                        absl::StrCat(field, ": ", install.status().message()));
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
