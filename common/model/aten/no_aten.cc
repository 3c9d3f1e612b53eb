// Stands in for load_aten.cc in a build without libtorch.
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/model/aten/load_aten.h"
#include "common/model/native/model_limits.h"

namespace espalier {

bool HasAten() { return false; }

absl::StatusOr<std::unique_ptr<LanguageModel>> LoadAtenModel(
    const ModelOptions& options) {
  RETURN_IF_ERROR(ParseDevice(options.device).status());
  return absl::FailedPreconditionError(absl::StrCat(
      "device \"", options.device, "\", backend \"", options.backend,
      "\": this build has no libtorch (ESPALIER_TORCH), only the "
      "native backend for the CPU"));
}

}  // namespace espalier
