#ifndef ESPALIER_COMMON_MODEL_MODEL_FINGERPRINT_H_
#define ESPALIER_COMMON_MODEL_MODEL_FINGERPRINT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "common/model/compute_dtype.h"
#include "common/model/files/model_config.h"
#include "common/model/files/weight_files.h"
#include "common/nn/kv_type.h"

namespace espalier {

// Models of equal fingerprint continue a text alike; no model has 0. It covers
// what decides a model's output: its shape, its compute type, the type of its
// K/V cache, and its weights as the compute type has them, whatever file they
// come from. With bfloat16 and fp8, a file of blocks is thus the same model as
// a folder of its weights rounded to bf16; with float32 it is another. Integer
// types take blocks as they are and make blocks of floats, so there the file's
// format counts. At most 64 KiB of every tensor are hashed, as samples, so that
// a large model loads no slower; a fine-tune changes them all. `kernels`: 0 for
// the CPU's; a device whose sums have other bits has a number of its own, and
// another one when its kernels' bits change.
uint64_t ModelFingerprint(const ModelConfig& config, const WeightFiles& files,
                          ComputeDType compute_type, nn::KvType kv_type,
                          uint64_t kernels = 0);

// INVALID_ARGUMENT names a tensor of a layer beyond config.json's count.
// Without this check the model would run truncated and give wrong text without
// an error.
absl::Status CheckLayerCount(const ModelConfig& config,
                             const WeightFiles& files);

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_MODEL_FINGERPRINT_H_
