#ifndef ESPALIER_TESTS_COMMON_NN_AMX_MODEL_H_
#define ESPALIER_TESTS_COMMON_NN_AMX_MODEL_H_

#include "common/nn/kernels.h"

namespace espalier::nn {

// Products and attention of the AMX backend, on any CPU: its tiles are in
// software. head_dim: a multiple of 32 only.
const Kernels& AmxModelKernels();

}  // namespace espalier::nn

#endif  // ESPALIER_TESTS_COMMON_NN_AMX_MODEL_H_
