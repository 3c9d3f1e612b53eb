#include <ATen/TensorOperators.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/tensor.h>

#include <cmath>
#include <iterator>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/model/aten/decoder.h"
#include "common/model/aten/mixture.h"
#include "common/model/aten/ops.h"

namespace espalier {
namespace {

// Norms that the layer lacks are undefined.
struct LlamaLayer {
  at::Tensor attention_norm;            // [hidden]
  Linear qkv;                           // hidden -> (heads + 2 kv_heads) * dim
  at::Tensor q_norm, k_norm;            // as HeadNorm says
  Linear attention_out;                 // heads * head_dim -> hidden
  at::Tensor attention_out_norm;        // [hidden]
  at::Tensor ffn_norm;                  // [hidden]
  std::variant<GatedMlp, Mixture> ffn;  // hidden -> hidden
  at::Tensor ffn_out_norm;              // [hidden]
};

struct LlamaWeights {
  at::Tensor embedding;                 // [vocab, hidden]
  std::vector<at::Tensor> frequencies;  // by table: [head_dim / 2] float64
  std::vector<LlamaLayer> layers;
  at::Tensor final_norm;  // [hidden]
  Linear head;            // hidden -> vocab
};

class LlamaDecoder final : public Decoder {
 public:
  LlamaDecoder(ModelConfig config, LlamaWeights weights)
      : config_(std::move(config)), weights_(std::move(weights)) {}

  at::Tensor Run(const Pass& pass) const override {
    std::vector<ops::Rotation> rotations;
    for (int32_t i = 0; i < std::ssize(config_.rotary); ++i) {
      rotations.push_back(ops::MakeRotation(
          weights_.frequencies[i], RotaryScale(config_, i), pass.positions));
    }
    at::Tensor x = ops::Embed(weights_.embedding, pass.tokens);
    if (config_.embedding_scale != 1) x = x * config_.embedding_scale;
    pass.Tap(0, x);
    for (int64_t layer = 0; layer < config_.num_layers; ++layer) {
      x = x + Attention(layer, x, rotations, pass);
      x = x + FeedForward(layer, x);
      pass.Tap(layer + 1, x);
    }
    return Normed(x, weights_.final_norm);
  }

  at::Tensor Logits(const at::Tensor& hidden) const override {
    const at::Tensor logits = weights_.head(hidden);
    const double cap = config_.logit_softcap;
    return cap > 0 ? at::tanh(logits / cap) * cap : logits;
  }

 private:
  // Returns x itself where there is no such norm.
  at::Tensor Normed(const at::Tensor& x, const at::Tensor& weight) const {
    if (!weight.defined()) return x;
    return ops::RmsNorm(x, weight, config_.norm_epsilon);
  }

  // Norms heads, [rows, heads, head_dim], each or all together.
  at::Tensor NormedHeads(const LayerShape& shape, const at::Tensor& x,
                         const at::Tensor& weight) const {
    if (shape.head_norm != HeadNorm::kAllHeads) return Normed(x, weight);
    return Normed(x.flatten(/*start_dim=*/1), weight).view(x.sizes());
  }

  at::Tensor Attention(int64_t index, const at::Tensor& x,
                       const std::vector<ops::Rotation>& rotations,
                       const Pass& pass) const {
    const LlamaLayer& layer = weights_.layers[index];
    const LayerShape& shape = config_.layers[index];
    const int64_t heads = config_.num_heads, kv_heads = config_.num_kv_heads;
    const at::Tensor qkv =
        layer.qkv(Normed(x, layer.attention_norm))
            .view({x.size(0), heads + 2 * kv_heads, config_.head_dim});
    at::Tensor q =
        NormedHeads(shape, qkv.narrow(/*dim=*/1, 0, heads), layer.q_norm);
    at::Tensor k = NormedHeads(shape, qkv.narrow(/*dim=*/1, heads, kv_heads),
                               layer.k_norm);
    if (shape.rotates()) {
      q = ops::Rotate(q, rotations[shape.rotary]);
      k = ops::Rotate(k, rotations[shape.rotary]);
    }
    const double scalar = shape.query_scalar > 0
                              ? shape.query_scalar
                              : static_cast<double>(config_.head_dim);
    const at::Tensor attended =
        pass.Attend(index, shape, q / std::sqrt(scalar), k,
                    qkv.narrow(/*dim=*/1, heads + kv_heads, kv_heads));
    return Normed(layer.attention_out(attended), layer.attention_out_norm);
  }

  at::Tensor FeedForward(int64_t index, const at::Tensor& x) const {
    const LlamaLayer& layer = weights_.layers[index];
    const LayerShape& shape = config_.layers[index];
    const at::Tensor input = Normed(x, layer.ffn_norm);
    const auto* const mlp = std::get_if<GatedMlp>(&layer.ffn);
    return Normed(mlp != nullptr ? (*mlp)(input, shape.activation)
                                 : std::get<Mixture>(layer.ffn)(input, shape),
                  layer.ffn_out_norm);
  }

  const ModelConfig config_;
  const LlamaWeights weights_;
};

// Undefined, unless the layer has this norm.
absl::StatusOr<at::Tensor> LoadNorm(const std::string& name, int64_t size,
                                    bool is_there, WeightLoader& weights) {
  if (!is_there) return at::Tensor();
  return weights.Vector(name, size);
}

absl::StatusOr<std::variant<GatedMlp, Mixture>> LoadFeedForward(
    const LayerShape& shape, int64_t hidden, const std::string& mlp,
    WeightLoader& weights) {
  if (shape.is_dense()) {
    return LoadGatedMlp(mlp, hidden, shape.ffn_size, shape.mlp_bias, weights);
  }
  return LoadMixture(mlp, hidden, shape.experts, weights);
}

absl::StatusOr<LlamaLayer> LoadLayer(const ModelConfig& config, int64_t index,
                                     WeightLoader& weights) {
  const std::string layer = absl::StrCat("model.layers.", index, ".");
  const std::string attention = layer + "self_attn.";
  const LayerShape& shape = config.layers[index];
  const int64_t hidden = config.hidden_size, head_dim = config.head_dim;
  const int64_t q_size = config.num_heads * head_dim;
  const int64_t kv_size = config.num_kv_heads * head_dim;
  const bool head_norms = shape.head_norm != HeadNorm::kNone;
  const bool each = shape.head_norm == HeadNorm::kEachHead;
  const auto norm = [&](const std::string& name, int64_t size, bool is_there) {
    return LoadNorm(name + ".weight", size, is_there, weights);
  };

  ASSIGN_OR_RETURN(at::Tensor attention_norm,
                   norm(layer + "input_layernorm", hidden, shape.norms_before));
  ASSIGN_OR_RETURN(
      Linear qkv,
      weights.LoadLinear({{attention + "q_proj", q_size},
                          {attention + "k_proj", kv_size},
                          {attention + "v_proj", kv_size}},
                         {.in = hidden, .has_bias = shape.attention_bias}));
  ASSIGN_OR_RETURN(
      at::Tensor q_norm,
      norm(attention + "q_norm", each ? head_dim : q_size, head_norms));
  ASSIGN_OR_RETURN(
      at::Tensor k_norm,
      norm(attention + "k_norm", each ? head_dim : kv_size, head_norms));
  ASSIGN_OR_RETURN(
      Linear attention_out,
      weights.LoadLinear({{attention + "o_proj", hidden}},
                         {.in = q_size, .has_bias = shape.attention_out_bias}));
  ASSIGN_OR_RETURN(
      at::Tensor attention_out_norm,
      norm(layer + "attention_output_norm", hidden, shape.norms_after));
  ASSIGN_OR_RETURN(at::Tensor ffn_norm, norm(layer + "post_attention_layernorm",
                                             hidden, shape.norms_before));
  ASSIGN_OR_RETURN(auto ffn,
                   LoadFeedForward(shape, hidden, layer + "mlp.", weights));
  ASSIGN_OR_RETURN(at::Tensor ffn_out_norm,
                   norm(layer + "ffn_output_norm", hidden, shape.norms_after));
  return LlamaLayer{.attention_norm = std::move(attention_norm),
                    .qkv = std::move(qkv),
                    .q_norm = std::move(q_norm),
                    .k_norm = std::move(k_norm),
                    .attention_out = std::move(attention_out),
                    .attention_out_norm = std::move(attention_out_norm),
                    .ffn_norm = std::move(ffn_norm),
                    .ffn = std::move(ffn),
                    .ffn_out_norm = std::move(ffn_out_norm)};
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
  std::vector<at::Tensor> frequencies;
  for (int32_t i = 0; i < std::ssize(config.rotary); ++i) {
    frequencies.push_back(
        at::tensor(RotaryFrequencies(config, i), at::kDouble));
  }
  return std::make_unique<LlamaDecoder>(
      config, LlamaWeights{.embedding = std::move(embedding),
                           .frequencies = std::move(frequencies),
                           .layers = std::move(layers),
                           .final_norm = std::move(final_norm),
                           .head = std::move(head)});
}

}  // namespace espalier
