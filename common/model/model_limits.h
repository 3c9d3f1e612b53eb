#ifndef ESPALIER_COMMON_MODEL_MODEL_LIMITS_H_
#define ESPALIER_COMMON_MODEL_MODEL_LIMITS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/model/load_model.h"

namespace espalier {

// What loading has in common, whatever the implementation.

// INVALID_ARGUMENT names the option and its limits.
absl::Status CheckOptions(const ModelOptions& options);

struct DeviceName {
  bool cuda = false;
  int index = 0;
};
// INVALID_ARGUMENT lists the known names.
absl::StatusOr<DeviceName> ParseDevice(const std::string& name);

// Fills in what follows from the options and info.config: the bytes per token
// of a K/V cache with elements of `element_bytes`, and the limits of a pass.
// Returns the tokens of the K/V pool. INVALID_ARGUMENT: not even one block.
absl::StatusOr<int64_t> SetLimits(const ModelOptions& options,
                                  int64_t element_bytes, ModelInfo& info);

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_MODEL_LIMITS_H_
