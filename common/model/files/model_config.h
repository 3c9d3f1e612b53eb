#ifndef ESPALIER_COMMON_MODEL_FILES_MODEL_CONFIG_H_
#define ESPALIER_COMMON_MODEL_FILES_MODEL_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/json/json_fields.h"
#include "common/model/files/rope_scaling.h"
#include "common/spec/types.h"

namespace espalier {

// Mistral is Llama; Qwen2 is Llama whose queries, keys and values have a bias;
// Qwen3 one whose queries and keys have a norm; SmolLM3 one with layers that do
// not rotate.
enum class Architecture { kLlama, kGpt2 };
enum class Activation { kSilu, kGelu, kGeluTanh };

// What a model folder's config.json, or a GGUF file's metadata, says. Checked:
// every size is positive and bounded, and head counts divide what they must.
struct ModelConfig {
  Architecture architecture = Architecture::kLlama;
  int64_t num_layers = 0;
  int64_t hidden_size = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;  // divides num_heads
  int64_t head_dim = 0;      // even for Llama
  int64_t ffn_size = 0;
  int64_t vocab_size = 0;
  int64_t max_positions = 0;
  Activation activation = Activation::kSilu;
  double norm_epsilon = 0;
  double rope_theta = 10000;
  std::optional<RopeScaling> rope_scaling;
  // [head_dim / 2] what rotary frequencies are divided by; or empty.
  std::vector<double> rope_factors;
  // [num_layers] which layers do not rotate queries and keys; empty: all do.
  std::vector<bool> no_rope;
  bool qk_norm = false;             // Llama: heads of q and k are normalized
  bool attention_bias = false;      // Llama: q, k, v have a bias
  bool attention_out_bias = false;  // Llama: o has a bias
  bool mlp_bias = false;            // Llama: gate, up, down have a bias
  bool tied_head = false;           // the head is the token embedding
  std::vector<TokenId> eos_ids;  // may be empty: the text never ends by itself
};

// Parses config.json; `source` names it in errors. INVALID_ARGUMENT names the
// field and its limits. UNIMPLEMENTED: an architecture (the message lists the
// known ones) or an option that this engine does not have.
absl::StatusOr<ModelConfig> ParseModelConfig(std::string_view json,
                                             const std::string& source);

// Reads the configuration of the model at `path`: a GGUF file's (see
// GgufPathOf), or a folder's config.json, whose end tokens give way to those of
// generation_config.json where there is one.
absl::StatusOr<ModelConfig> ReadModelConfig(const std::string& path);

// Reads what describes the layers of a Llama, or of a draft head that is made
// of such layers. The rotary base stays what it is if the file says none.
// Mistakes stay in `fields`.
void ReadLlamaFields(JsonFields& fields, ModelConfig& config);

// Fails unless every layer sees the whole text, as Qwen3's fields say it.
void CheckFullAttention(JsonFields& fields);

// [head_dim / 2] angle per position of each rotated pair.
std::vector<double> RotaryFrequencies(const ModelConfig& config);

// Returns what the cosines and sines of the angles are multiplied by (YaRN): 1
// for most models.
double RotaryScale(const ModelConfig& config);

// Returns whether layer `index` rotates queries and keys.
bool Rotates(const ModelConfig& config, int64_t index);

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_FILES_MODEL_CONFIG_H_
