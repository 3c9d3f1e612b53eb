#include "common/nn/cpu_backend.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace espalier::nn {

absl::StatusOr<const Kernels*> FindBackend(const std::string& name) {
  const std::vector<const Kernels*> usable = UsableBackends();
  if (name == "auto") return usable.front();
  std::string known = "auto";
  for (const Kernels* kernels : usable) {
    if (name == kernels->name) return kernels;
    absl::StrAppend(&known, ", ", kernels->name);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "unknown CPU backend \"", name, "\"; usable on this CPU: ", known));
}

}  // namespace espalier::nn
