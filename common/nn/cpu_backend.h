#ifndef ESPALIER_COMMON_NN_CPU_BACKEND_H_
#define ESPALIER_COMMON_NN_CPU_BACKEND_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/nn/kernels.h"

namespace espalier::nn {

// The backends that this CPU can run, best first; the portable one is last.
std::vector<const Kernels*> UsableBackends();

// The backend of this name; "auto": the best. Chosen once per model: rows must
// not move between backends, whose bits differ. INVALID_ARGUMENT lists the
// usable ones.
absl::StatusOr<const Kernels*> FindBackend(const std::string& name);

}  // namespace espalier::nn

#endif  // ESPALIER_COMMON_NN_CPU_BACKEND_H_
