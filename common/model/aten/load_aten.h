#ifndef ESPALIER_COMMON_MODEL_ATEN_LOAD_ATEN_H_
#define ESPALIER_COMMON_MODEL_ATEN_LOAD_ATEN_H_

#include <memory>

#include "absl/status/statusor.h"
#include "common/model/language_model.h"
#include "common/model/model_options.h"

namespace espalier {

// Returns whether this build has libtorch: load_aten.cc or no_aten.cc.
bool HasAten();

// LoadModel on libtorch's operators. FAILED_PRECONDITION: not in this build.
absl::StatusOr<std::unique_ptr<LanguageModel>> LoadAtenModel(
    const ModelOptions& options);

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_ATEN_LOAD_ATEN_H_
