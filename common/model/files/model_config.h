#ifndef ESPALIER_COMMON_MODEL_FILES_MODEL_CONFIG_H_
#define ESPALIER_COMMON_MODEL_FILES_MODEL_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/model/files/layer_shape.h"
#include "common/model/files/rope_scaling.h"
#include "common/speculation/types.h"

namespace espalier {

// The two kinds of decoders. GPT-2 has learned positions, norms with a mean and
// a bias, an MLP without a gate, and names of tensors of its own; all others
// are kLlama, and what they differ in is in LayerShape.
enum class DecoderKind { kLlama, kGpt2 };

// The angles that queries and keys are rotated by.
struct RotaryTable {
  double theta = 10000;
  std::optional<RopeScaling> scaling = {};
  // [head_dim / 2] what rotary frequencies are divided by; or empty.
  std::vector<double> factors = {};
};

// Holds what a model folder's config.json, or a GGUF file's metadata, says.
// Checked: every size is positive and bounded, and head counts divide what they
// must.
struct ModelConfig {
  DecoderKind kind = DecoderKind::kLlama;
  int64_t num_layers = 0;
  int64_t hidden_size = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;  // divides num_heads
  int64_t head_dim = 0;      // even for Llama
  int64_t vocab_size = 0;
  int64_t max_positions = 0;
  double norm_epsilon = 0;
  double embedding_scale = 1;       // what embeddings are multiplied by
  double logit_softcap = 0;         // logits l become c tanh(l / c); 0: l
  bool tied_head = false;           // the head is the token embedding
  std::vector<RotaryTable> rotary;  // that layers name; of GPT-2 none
  std::vector<LayerShape> layers;   // [num_layers]
  std::vector<TokenId> eos_ids;  // may be empty: the text never ends by itself
};

// The most layers that a configuration may have.
inline constexpr int64_t kMaxLayers = 4096;

// Parses config.json; `source` names it in errors. INVALID_ARGUMENT names the
// field and its limits. UNIMPLEMENTED: an architecture (the message lists the
// known ones) or an option that this engine does not have.
absl::StatusOr<ModelConfig> ParseModelConfig(std::string_view json,
                                             const std::string& source);

// Reads the configuration of the model at `path`: a GGUF file's (see
// GgufPathOf), or a folder's config.json, whose end tokens give way to those of
// generation_config.json where there is one.
absl::StatusOr<ModelConfig> ReadModelConfig(const std::string& path);

// Leaves the model its first `count` layers. REQUIRES: count <= num_layers.
void KeepLayers(int64_t count, ModelConfig& config);

// [head_dim / 2] angle per position of each rotated pair, in one of the
// model's tables.
std::vector<double> RotaryFrequencies(const ModelConfig& config,
                                      int32_t table = 0);

// Returns what the cosines and sines of a table's angles are multiplied by
// (YaRN): 1 for most models.
double RotaryScale(const ModelConfig& config, int32_t table = 0);

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_FILES_MODEL_CONFIG_H_
