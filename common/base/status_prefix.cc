#include "common/base/status_prefix.h"

#include "absl/strings/str_cat.h"

namespace espalier {

absl::Status WithPrefix(absl::string_view prefix, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat(prefix, ": ", status.message()));
}

}  // namespace espalier
