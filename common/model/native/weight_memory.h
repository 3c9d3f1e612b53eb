#ifndef ESPALIER_COMMON_MODEL_NATIVE_WEIGHT_MEMORY_H_
#define ESPALIER_COMMON_MODEL_NATIVE_WEIGHT_MEMORY_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "common/model/compute_dtype.h"
#include "common/model/files/tensor_view.h"

namespace espalier {

// Returns the least bytes that the packed weights take, without scales of
// blocks.
int64_t LeastWeightBytes(const std::map<std::string, TensorView>& tensors,
                         ComputeDType dtype);

// RESOURCE_EXHAUSTED: the weights do not fit into `available` bytes (0: that is
// not known). Said
// before anything is packed, so that a large model fails at once and not after
// minutes.
absl::Status CheckWeightsFit(const std::map<std::string, TensorView>& tensors,
                             ComputeDType dtype, int64_t available);

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_NATIVE_WEIGHT_MEMORY_H_
