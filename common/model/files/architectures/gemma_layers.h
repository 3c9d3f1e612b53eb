#ifndef ESPALIER_COMMON_MODEL_FILES_ARCHITECTURES_GEMMA_LAYERS_H_
#define ESPALIER_COMMON_MODEL_FILES_ARCHITECTURES_GEMMA_LAYERS_H_

#include <cstdint>

#include "common/json/json_fields.h"
#include "common/model/files/gguf_fields.h"
#include "common/model/files/model_config.h"
#include "common/model/files/tensor_names.h"

namespace espalier {

// Gemma 2 and Gemma 3 share this: scaled embeddings, norms before and after
// both parts of a layer, GELU, and softcaps.

inline constexpr TensorName kGemmaTensors[] = {
    {"post_attention_layernorm.weight", "attention_output_norm.weight"},
    {"pre_feedforward_layernorm.weight", "post_attention_layernorm.weight"},
    {"post_feedforward_layernorm.weight", "ffn_output_norm.weight"},
};

// Says what a file means that leaves a field out; a softcap of 0 is none.
struct GemmaDefaults {
  int64_t max_positions = 0;
  double score_softcap = 0;
  double logit_softcap = 0;
};

// Reads all of config.json but windows and rotary tables by layer.
void ReadGemmaFolder(JsonFields& fields, const GemmaDefaults& defaults,
                     ModelConfig& config);

// Reads all of a GGUF file but softcaps, windows and rotary tables by layer.
// layers_of_27b: llama.cpp knows the largest model by them, whose scores have a
// scale of their own.
void ReadGemmaGguf(GgufFields& fields, int64_t layers_of_27b,
                   ModelConfig& config);

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_FILES_ARCHITECTURES_GEMMA_LAYERS_H_
