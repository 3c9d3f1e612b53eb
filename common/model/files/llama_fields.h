#ifndef ESPALIER_COMMON_MODEL_FILES_LLAMA_FIELDS_H_
#define ESPALIER_COMMON_MODEL_FILES_LLAMA_FIELDS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "common/json/json_fields.h"
#include "common/model/files/model_config.h"

namespace espalier {

// Fields of config.json that most architectures share. Mistakes stay in
// `fields`; what was read is sound anyway: sizes are positive, and there is a
// layer.

// Says what a file means that leaves a field out.
struct LlamaDefaults {
  double rope_theta = 10000;
  bool tied_head = false;
  const char* activation_field = "hidden_act";
  const char* activation = "silu";
  int64_t head_dim = 0;  // 0: hidden_size / num_attention_heads
  int64_t max_positions = 2048;
  double norm_epsilon = 1e-6;
};

// Reads what describes a Llama, or a draft head that is made of such layers:
// sizes, one rotary table, and layers that are all alike.
void ReadLlamaFields(JsonFields& fields, ModelConfig& config,
                     const LlamaDefaults& defaults = {});

// Returns the number of layers in field `name`: 1 .. kMaxLayers.
int64_t ReadLayerCount(JsonFields& fields, const char* name);

// Reads a rotary table: the base, and the scaling in rope_scaling or
// rope_parameters. theta: the base where the file says none. Positions that a
// scaling reaches raise config.max_positions.
RotaryTable ReadRope(JsonFields& fields, double theta, ModelConfig& config);

// Reads the same from one object such as rope_parameters.
// original_max_positions: what a field outside of it says, if one does.
RotaryTable ReadRotary(JsonFields& rope, double theta,
                       std::optional<int64_t> original_max_positions,
                       ModelConfig& config);

// Reads the name of an activation; `fallback` where the field is absent.
Activation ReadActivation(JsonFields& fields, const char* name,
                          const std::string& fallback);

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_FILES_LLAMA_FIELDS_H_
