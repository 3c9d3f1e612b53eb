#ifndef ESPALIER_COMMON_MODEL_MODEL_FINGERPRINT_H_
#define ESPALIER_COMMON_MODEL_MODEL_FINGERPRINT_H_

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "common/model/files/model_config.h"
#include "common/model/files/safetensors.h"

namespace espalier {

// Models of equal fingerprint continue a text alike; no model has 0. It covers
// what decides a model's output: its shape, its weights and its compute type
// ("float32"). At most 64 KiB of every tensor are hashed, as samples, so that a
// large model loads no slower; a fine-tune changes them all.
//
// Today the stored bytes are sampled, so the same weights in another format
// have another fingerprint: this can refuse an equal model but never accepts a
// different one. Code that reads a second format must sample the values that it
// computes with.
uint64_t ModelFingerprint(const ModelConfig& config, const WeightFiles& files,
                          std::string_view compute_type);

// INVALID_ARGUMENT names a tensor of a layer beyond config.json's count.
// Without this check the model would run truncated and give wrong text without
// an error.
absl::Status CheckLayerCount(const ModelConfig& config,
                             const WeightFiles& files);

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_MODEL_FINGERPRINT_H_
