#include <ATen/ATen.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/model/aten/decoder.h"
#include "common/model/aten/ops.h"

namespace espalier {
namespace {

struct LlamaLayer {
  at::Tensor attention_norm;  // [hidden]
  Linear qkv;                 // hidden -> (heads + 2 kv_heads) * head_dim
  at::Tensor qk_norm;         // [heads + kv_heads, head_dim]; undefined: none
  Linear attention_out;       // heads * head_dim -> hidden
  at::Tensor ffn_norm;        // [hidden]
  Linear gate_up;             // hidden -> 2 ffn
  Linear down;                // ffn -> hidden
};

struct LlamaWeights {
  at::Tensor embedding;    // [vocab, hidden]
  at::Tensor frequencies;  // [head_dim / 2] float64
  std::vector<LlamaLayer> layers;
  at::Tensor final_norm;  // [hidden]
  Linear head;            // hidden -> vocab
};

class LlamaDecoder final : public Decoder {
 public:
  LlamaDecoder(ModelConfig config, LlamaWeights weights)
      : config_(std::move(config)), weights_(std::move(weights)) {}

  at::Tensor Run(const Pass& pass) const override {
    const auto rotation = ops::MakeRotation(
        weights_.frequencies, RotaryScale(config_), pass.positions);
    at::Tensor x = ops::Embed(weights_.embedding, pass.tokens);
    pass.Tap(0, x);
    for (int64_t layer = 0; layer < config_.num_layers; ++layer) {
      x = x + Attention(layer, x, rotation, pass);
      x = x + FeedForward(layer, x);
      pass.Tap(layer + 1, x);
    }
    return ops::RmsNorm(x, weights_.final_norm, config_.norm_epsilon);
  }

  at::Tensor Logits(const at::Tensor& hidden) const override {
    return weights_.head(hidden);
  }

 private:
  at::Tensor Attention(int64_t index, const at::Tensor& x,
                       const ops::Rotation& rotation, const Pass& pass) const {
    const LlamaLayer& layer = weights_.layers[index];
    const int64_t heads = config_.num_heads, kv_heads = config_.num_kv_heads;
    const at::Tensor normed =
        ops::RmsNorm(x, layer.attention_norm, config_.norm_epsilon);
    const at::Tensor qkv = layer.qkv(normed).view(
        {x.size(0), heads + 2 * kv_heads, config_.head_dim});
    // q and k are normalized and rotated together.
    at::Tensor qk = qkv.narrow(/*dim=*/1, 0, heads + kv_heads);
    const LayerShape& shape = config_.layers[index];
    if (shape.head_norm != HeadNorm::kNone) {
      qk = ops::RmsNorm(qk, layer.qk_norm, config_.norm_epsilon);
    }
    if (shape.rotates()) qk = ops::Rotate(qk, rotation);
    return layer.attention_out(
        pass.Attend(index, qk.narrow(/*dim=*/1, 0, heads),
                    qk.narrow(/*dim=*/1, heads, kv_heads),
                    qkv.narrow(/*dim=*/1, heads + kv_heads, kv_heads)));
  }

  at::Tensor FeedForward(int64_t index, const at::Tensor& x) const {
    const LlamaLayer& layer = weights_.layers[index];
    const at::Tensor gate_up =
        layer.gate_up(ops::RmsNorm(x, layer.ffn_norm, config_.norm_epsilon));
    const LayerShape& shape = config_.layers[index];
    const int64_t ffn = shape.ffn_size;
    const at::Tensor gate = gate_up.narrow(/*dim=*/1, 0, ffn).contiguous();
    return layer.down(ops::Activate(gate, shape.activation) *
                      gate_up.narrow(/*dim=*/1, ffn, ffn));
  }

  const ModelConfig config_;
  const LlamaWeights weights_;
};

// Loads one row per head; all heads of q share a weight, and all of k.
absl::StatusOr<at::Tensor> LoadQkNorm(const ModelConfig& config,
                                      const LayerShape& shape,
                                      const std::string& attention,
                                      WeightLoader& weights) {
  if (shape.head_norm == HeadNorm::kNone) return at::Tensor();
  const int64_t head_dim = config.head_dim;
  ASSIGN_OR_RETURN(const at::Tensor q,
                   weights.Vector(attention + "q_norm.weight", head_dim));
  ASSIGN_OR_RETURN(const at::Tensor k,
                   weights.Vector(attention + "k_norm.weight", head_dim));
  return at::cat({q.expand({config.num_heads, head_dim}),
                  k.expand({config.num_kv_heads, head_dim})});
}

absl::StatusOr<LlamaLayer> LoadLayer(const ModelConfig& config, int64_t index,
                                     WeightLoader& weights) {
  const std::string layer = absl::StrCat("model.layers.", index, ".");
  const std::string attention = layer + "self_attn.";
  const LayerShape& shape = config.layers[index];
  const int64_t hidden = config.hidden_size, ffn = shape.ffn_size;
  const int64_t q_size = config.num_heads * config.head_dim;
  const int64_t kv_size = config.num_kv_heads * config.head_dim;

  ASSIGN_OR_RETURN(at::Tensor attention_norm,
                   weights.Vector(layer + "input_layernorm.weight", hidden));
  ASSIGN_OR_RETURN(
      Linear qkv,
      weights.LoadLinear({{attention + "q_proj", q_size},
                          {attention + "k_proj", kv_size},
                          {attention + "v_proj", kv_size}},
                         {.in = hidden, .has_bias = shape.attention_bias}));
  ASSIGN_OR_RETURN(at::Tensor qk_norm,
                   LoadQkNorm(config, shape, attention, weights));
  ASSIGN_OR_RETURN(
      Linear attention_out,
      weights.LoadLinear({{attention + "o_proj", hidden}},
                         {.in = q_size, .has_bias = shape.attention_out_bias}));
  ASSIGN_OR_RETURN(
      at::Tensor ffn_norm,
      weights.Vector(layer + "post_attention_layernorm.weight", hidden));
  ASSIGN_OR_RETURN(
      Linear gate_up,
      weights.LoadLinear(
          {{layer + "mlp.gate_proj", ffn}, {layer + "mlp.up_proj", ffn}},
          {.in = hidden, .has_bias = shape.mlp_bias}));
  ASSIGN_OR_RETURN(Linear down,
                   weights.LoadLinear({{layer + "mlp.down_proj", hidden}},
                                      {.in = ffn, .has_bias = shape.mlp_bias}));
  return LlamaLayer{.attention_norm = std::move(attention_norm),
                    .qkv = std::move(qkv),
                    .qk_norm = std::move(qk_norm),
                    .attention_out = std::move(attention_out),
                    .ffn_norm = std::move(ffn_norm),
                    .gate_up = std::move(gate_up),
                    .down = std::move(down)};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Decoder>> LoadLlama(const ModelConfig& config,
                                                   WeightLoader& weights) {
  ASSIGN_OR_RETURN(at::Tensor embedding,
                   weights.Table("model.embed_tokens.weight", config.vocab_size,
                                 config.hidden_size));
  std::vector<LlamaLayer> layers;
  for (int64_t i = 0; i < config.num_layers; ++i) {
    ASSIGN_OR_RETURN(LlamaLayer layer, LoadLayer(config, i, weights));
    layers.push_back(std::move(layer));
  }
  ASSIGN_OR_RETURN(at::Tensor final_norm,
                   weights.Vector("model.norm.weight", config.hidden_size));
  ASSIGN_OR_RETURN(Linear head, weights.LoadHead(config, embedding));
  const at::Tensor frequencies =
      at::tensor(RotaryFrequencies(config), at::kDouble);
  return std::make_unique<LlamaDecoder>(
      config, LlamaWeights{.embedding = std::move(embedding),
                           .frequencies = frequencies,
                           .layers = std::move(layers),
                           .final_norm = std::move(final_norm),
                           .head = std::move(head)});
}

}  // namespace espalier
