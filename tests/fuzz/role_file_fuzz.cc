// A file of roles, which its operator may have written wrongly.
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/printable.h"
#include "common/rpc/role_file.h"
#include "tests/fuzz/fuzz_targets.h"

namespace espalier::testing {
namespace role_file_fuzz {

std::vector<std::string> Seeds() {
  const std::string hash(64, 'a');
  return {absl::StrCat("# people\n\nclient alice sha256:", hash, "\n"),
          absl::StrCat("service one certificate:coordinator\n",
                       "scrape p\tsha256:", hash)};
}

bool Try(std::string_view bytes) {
  const auto callers = ParseRoles({bytes.data(), bytes.size()});
  if (!callers.ok()) return false;
  for (const Principal& caller : *callers) {
    ESPALIER_CHECK(!caller.name.empty() && IsPrintable(caller.name));
    ESPALIER_CHECK(!caller.credential.empty());
  }
  return true;
}

}  // namespace role_file_fuzz

FuzzTarget RoleFileTarget() {
  return {"role_file", role_file_fuzz::Seeds, role_file_fuzz::Try};
}

}  // namespace espalier::testing
