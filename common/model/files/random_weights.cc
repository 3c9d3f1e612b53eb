#include "common/model/files/random_weights.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
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

class Tensors {
 public:
  Tensors(uint64_t seed, absl::Span<const float> ones)
      : seed_(seed), ones_(ones) {}

  void AddNorm(const std::string& name, int64_t size) {
    ESPALIER_CHECK(size <= static_cast<int64_t>(ones_.size()));
    const auto* const data = reinterpret_cast<const std::byte*>(ones_.data());
    views_[name] = {.dtype = DType::kF32,
                    .shape = {size},
                    .data = {data, size * sizeof(float)}};
  }

  void Add(const std::string& name, std::vector<int64_t> shape) {
    views_[name] = {.dtype = DType::kRandom,
                    .shape = std::move(shape),
                    .seed = SeedOf(seed_, name)};
  }

  void AddLinear(const std::string& name, int64_t outputs, int64_t inputs,
                 bool has_bias) {
    Add(name + ".weight", {outputs, inputs});
    if (has_bias) Add(name + ".bias", {outputs});
  }

  std::map<std::string, TensorView> Take() { return std::move(views_); }

 private:
  const uint64_t seed_;
  const absl::Span<const float> ones_;
  std::map<std::string, TensorView> views_;
};

void AddLayer(const ModelConfig& config, const std::string& layer,
              Tensors& tensors) {
  const std::string attention = layer + "self_attn.", mlp = layer + "mlp.";
  const int64_t hidden = config.hidden_size, ffn = config.ffn_size;
  const int64_t q_size = config.num_heads * config.head_dim;
  const int64_t kv_size = config.num_kv_heads * config.head_dim;
  const bool bias = config.attention_bias;
  tensors.AddNorm(layer + "input_layernorm.weight", hidden);
  tensors.AddLinear(attention + "q_proj", q_size, hidden, bias);
  tensors.AddLinear(attention + "k_proj", kv_size, hidden, bias);
  tensors.AddLinear(attention + "v_proj", kv_size, hidden, bias);
  if (config.qk_norm) {
    tensors.AddNorm(attention + "q_norm.weight", config.head_dim);
    tensors.AddNorm(attention + "k_norm.weight", config.head_dim);
  }
  tensors.AddLinear(attention + "o_proj", hidden, q_size,
                    config.attention_out_bias);
  tensors.AddNorm(layer + "post_attention_layernorm.weight", hidden);
  tensors.AddLinear(mlp + "gate_proj", ffn, hidden, config.mlp_bias);
  tensors.AddLinear(mlp + "up_proj", ffn, hidden, config.mlp_bias);
  tensors.AddLinear(mlp + "down_proj", hidden, ffn, config.mlp_bias);
}

}  // namespace

absl::StatusOr<std::map<std::string, TensorView>> RandomWeights(
    const ModelConfig& config, uint64_t seed, absl::Span<const float> ones) {
  if (config.architecture != Architecture::kLlama) {
    return absl::UnimplementedError(
        "random weights: the architecture is not that of a Llama or Qwen");
  }
  Tensors tensors(seed, ones);
  for (int64_t i = 0; i < config.num_layers; ++i) {
    AddLayer(config, absl::StrCat("model.layers.", i, "."), tensors);
  }
  tensors.AddNorm("model.norm.weight", config.hidden_size);
  tensors.Add("model.embed_tokens.weight",
              {config.vocab_size, config.hidden_size});
  if (!config.tied_head) {
    tensors.Add("lm_head.weight", {config.vocab_size, config.hidden_size});
  }
  return tensors.Take();
}

}  // namespace espalier
