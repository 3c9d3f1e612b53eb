#include "common/model/files/random_weights.h"

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace espalier {
namespace {

// FNV-1a, 64 bit.
uint64_t SeedOf(uint64_t seed, const std::string& name) {
  uint64_t hash = 0xcbf29ce484222325 ^ seed;
  for (char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return hash;
}

bool IsNorm(const TensorShape& tensor) {
  return tensor.shape.size() == 1 && !absl::EndsWith(tensor.name, ".bias");
}

}  // namespace

std::vector<TensorShape> LayerShapes(const ModelConfig& config,
                                     const std::string& layer, int64_t inputs) {
  const std::string attention = layer + "self_attn.", mlp = layer + "mlp.";
  const int64_t hidden = config.hidden_size, ffn = config.ffn_size;
  const int64_t q_size = config.num_heads * config.head_dim;
  const int64_t kv_size = config.num_kv_heads * config.head_dim;
  std::vector<TensorShape> shapes;
  const auto add_linear = [&](const std::string& name, int64_t outputs,
                              int64_t columns, bool has_bias) {
    shapes.push_back({name + ".weight", {outputs, columns}});
    if (has_bias) shapes.push_back({name + ".bias", {outputs}});
  };
  add_linear(attention + "q_proj", q_size, inputs, config.attention_bias);
  add_linear(attention + "k_proj", kv_size, inputs, config.attention_bias);
  add_linear(attention + "v_proj", kv_size, inputs, config.attention_bias);
  if (config.qk_norm) {
    shapes.push_back({attention + "q_norm.weight", {config.head_dim}});
    shapes.push_back({attention + "k_norm.weight", {config.head_dim}});
  }
  add_linear(attention + "o_proj", hidden, q_size, config.attention_out_bias);
  shapes.push_back({layer + "post_attention_layernorm.weight", {hidden}});
  add_linear(mlp + "gate_proj", ffn, hidden, config.mlp_bias);
  add_linear(mlp + "up_proj", ffn, hidden, config.mlp_bias);
  add_linear(mlp + "down_proj", hidden, ffn, config.mlp_bias);
  return shapes;
}

absl::StatusOr<std::vector<TensorShape>> ModelShapes(
    const ModelConfig& config) {
  if (config.architecture != Architecture::kLlama) {
    return absl::UnimplementedError(
        "random weights: the architecture is not that of a Llama or Qwen");
  }
  const int64_t hidden = config.hidden_size;
  std::vector<TensorShape> shapes = {
      {"model.norm.weight", {hidden}},
      {"model.embed_tokens.weight", {config.vocab_size, hidden}}};
  if (!config.tied_head) {
    shapes.push_back({"lm_head.weight", {config.vocab_size, hidden}});
  }
  for (int64_t i = 0; i < config.num_layers; ++i) {
    const std::string layer = absl::StrCat("model.layers.", i, ".");
    shapes.push_back({layer + "input_layernorm.weight", {hidden}});
    for (TensorShape& tensor : LayerShapes(config, layer, hidden)) {
      shapes.push_back(std::move(tensor));
    }
  }
  return shapes;
}

std::map<std::string, TensorView> RandomWeights(
    absl::Span<const TensorShape> shapes, uint64_t seed,
    absl::Span<const float> ones) {
  std::map<std::string, TensorView> views;
  for (const TensorShape& tensor : shapes) {
    TensorView& view = views[tensor.name];
    view.shape = tensor.shape;
    if (!IsNorm(tensor)) {
      view.dtype = DType::kRandom;
      view.seed = SeedOf(seed, tensor.name);
      continue;
    }
    ESPALIER_CHECK(tensor.shape[0] <= std::ssize(ones));
    view.dtype = DType::kF32;
    view.data = {reinterpret_cast<const std::byte*>(ones.data()),
                 tensor.shape[0] * sizeof(float)};
  }
  return views;
}

}  // namespace espalier
