#include "common/model/files/random_weights.h"

#include <utility>

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

namespace {

// Collects shapes under one prefix.
class ShapeList {
 public:
  explicit ShapeList(std::string prefix) : prefix_(std::move(prefix)) {}

  void Vector(const std::string& name, int64_t size) {
    shapes.push_back({prefix_ + name + ".weight", {size}});
  }
  void Linear(const std::string& name, int64_t outputs, int64_t columns,
              bool has_bias) {
    shapes.push_back({prefix_ + name + ".weight", {outputs, columns}});
    if (has_bias) shapes.push_back({prefix_ + name + ".bias", {outputs}});
  }

  std::vector<TensorShape> shapes;

 private:
  const std::string prefix_;
};

void AddFeedForward(const LayerShape& layer, int64_t hidden, ShapeList& list) {
  const auto add_mlp = [&](const std::string& mlp, int64_t ffn, bool has_bias) {
    list.Linear(mlp + "gate_proj", ffn, hidden, has_bias);
    list.Linear(mlp + "up_proj", ffn, hidden, has_bias);
    list.Linear(mlp + "down_proj", hidden, ffn, has_bias);
  };
  if (layer.is_dense()) {
    add_mlp("mlp.", layer.ffn_size, layer.mlp_bias);
    return;
  }
  list.Linear("mlp.gate", layer.experts.count, hidden, /*has_bias=*/false);
  for (int64_t i = 0; i < layer.experts.count; ++i) {
    add_mlp(absl::StrCat("mlp.experts.", i, "."), layer.experts.ffn_size,
            /*has_bias=*/false);
  }
}

}  // namespace

std::vector<TensorShape> LayerShapes(const ModelConfig& config, int64_t index,
                                     const std::string& prefix,
                                     int64_t inputs) {
  const LayerShape& layer = config.layers[index];
  const int64_t hidden = config.hidden_size;
  const int64_t q_size = config.num_heads * config.head_dim;
  const int64_t kv_size = config.num_kv_heads * config.head_dim;
  ShapeList list(prefix);
  list.Linear("self_attn.q_proj", q_size, inputs, layer.attention_bias);
  list.Linear("self_attn.k_proj", kv_size, inputs, layer.attention_bias);
  list.Linear("self_attn.v_proj", kv_size, inputs, layer.attention_bias);
  if (layer.head_norm != HeadNorm::kNone) {
    const bool each = layer.head_norm == HeadNorm::kEachHead;
    list.Vector("self_attn.q_norm", each ? config.head_dim : q_size);
    list.Vector("self_attn.k_norm", each ? config.head_dim : kv_size);
  }
  list.Linear("self_attn.o_proj", hidden, q_size, layer.attention_out_bias);
  if (layer.norms_before) list.Vector("post_attention_layernorm", hidden);
  if (layer.norms_after) {
    list.Vector("attention_output_norm", hidden);
    list.Vector("ffn_output_norm", hidden);
  }
  AddFeedForward(layer, hidden, list);
  return std::move(list.shapes);
}

absl::StatusOr<std::vector<TensorShape>> ModelShapes(
    const ModelConfig& config) {
  if (config.kind != DecoderKind::kLlama) {
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
    if (config.layers[i].norms_before) {
      shapes.push_back({layer + "input_layernorm.weight", {hidden}});
    }
    for (TensorShape& tensor : LayerShapes(config, i, layer, hidden)) {
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
