#include <ATen/TensorOperators.h>

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/model/aten/decoder.h"
#include "common/model/aten/ops.h"

namespace espalier {
namespace {

struct LayerNormWeights {
  at::Tensor weight;  // [hidden]
  at::Tensor bias;    // [hidden]
};

struct Gpt2Layer {
  LayerNormWeights attention_norm;
  Linear qkv;            // hidden -> 3 hidden
  Linear attention_out;  // hidden -> hidden
  LayerNormWeights ffn_norm;
  Linear up;    // hidden -> ffn
  Linear down;  // ffn -> hidden
};

struct Gpt2Weights {
  at::Tensor tokens;     // [vocab, hidden]
  at::Tensor positions;  // [max_positions, hidden]
  std::vector<Gpt2Layer> layers;
  LayerNormWeights final_norm;
  Linear head;  // hidden -> vocab
};

class Gpt2Decoder final : public Decoder {
 public:
  Gpt2Decoder(ModelConfig config, Gpt2Weights weights)
      : config_(std::move(config)), weights_(std::move(weights)) {}

  at::Tensor Run(const Pass& pass) const override {
    at::Tensor x = ops::Embed(weights_.tokens, pass.tokens) +
                   ops::Embed(weights_.positions, pass.positions);
    pass.Tap(0, x);
    for (int64_t layer = 0; layer < config_.num_layers; ++layer) {
      x = x + Attention(layer, x, pass);
      x = x + FeedForward(layer, x);
      pass.Tap(layer + 1, x);
    }
    return Normed(x, weights_.final_norm);
  }

  at::Tensor Logits(const at::Tensor& hidden) const override {
    return weights_.head(hidden);
  }

 private:
  at::Tensor Normed(const at::Tensor& x, const LayerNormWeights& norm) const {
    return ops::LayerNorm(x, norm.weight, norm.bias, config_.norm_epsilon);
  }

  at::Tensor Attention(int64_t index, const at::Tensor& x,
                       const Pass& pass) const {
    const Gpt2Layer& layer = weights_.layers[index];
    const int64_t heads = config_.num_heads;
    const at::Tensor qkv = layer.qkv(Normed(x, layer.attention_norm))
                               .view({x.size(0), 3 * heads, config_.head_dim});
    return layer.attention_out(pass.Attend(
        index, config_.layers[index],
        qkv.narrow(/*dim=*/1, 0, heads) / std::sqrt(config_.head_dim),
        qkv.narrow(/*dim=*/1, heads, heads),
        qkv.narrow(/*dim=*/1, 2 * heads, heads)));
  }

  at::Tensor FeedForward(int64_t index, const at::Tensor& x) const {
    const Gpt2Layer& layer = weights_.layers[index];
    return layer.down(ops::Activate(layer.up(Normed(x, layer.ffn_norm)),
                                    config_.layers.front().activation));
  }

  const ModelConfig config_;
  const Gpt2Weights weights_;
};

absl::StatusOr<LayerNormWeights> LoadNorm(const std::string& name,
                                          int64_t hidden,
                                          WeightLoader& weights) {
  ASSIGN_OR_RETURN(at::Tensor weight, weights.Vector(name + ".weight", hidden));
  ASSIGN_OR_RETURN(at::Tensor bias, weights.Vector(name + ".bias", hidden));
  return LayerNormWeights{.weight = std::move(weight), .bias = std::move(bias)};
}

absl::StatusOr<Gpt2Layer> LoadLayer(const ModelConfig& config,
                                    const std::string& layer,
                                    WeightLoader& weights) {
  const int64_t hidden = config.hidden_size,
                ffn = config.layers.front().ffn_size;
  auto linear = [&](const char* name, int64_t in, int64_t out) {
    return weights.LoadLinear({{absl::StrCat(layer, name), out}},
                              {.in = in, .has_bias = true, .transposed = true});
  };
  ASSIGN_OR_RETURN(LayerNormWeights attention_norm,
                   LoadNorm(layer + "ln_1", hidden, weights));
  ASSIGN_OR_RETURN(Linear qkv, linear("attn.c_attn", hidden, 3 * hidden));
  ASSIGN_OR_RETURN(Linear attention_out, linear("attn.c_proj", hidden, hidden));
  ASSIGN_OR_RETURN(LayerNormWeights ffn_norm,
                   LoadNorm(layer + "ln_2", hidden, weights));
  ASSIGN_OR_RETURN(Linear up, linear("mlp.c_fc", hidden, ffn));
  ASSIGN_OR_RETURN(Linear down, linear("mlp.c_proj", ffn, hidden));
  return Gpt2Layer{.attention_norm = std::move(attention_norm),
                   .qkv = std::move(qkv),
                   .attention_out = std::move(attention_out),
                   .ffn_norm = std::move(ffn_norm),
                   .up = std::move(up),
                   .down = std::move(down)};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Decoder>> LoadGpt2(const ModelConfig& config,
                                                  WeightLoader& weights) {
  // The first GPT-2 files were written without the outer module's name.
  const std::string model = weights.Has("wte.weight") ? "" : "transformer.";
  ASSIGN_OR_RETURN(at::Tensor tokens,
                   weights.Table(model + "wte.weight", config.vocab_size,
                                 config.hidden_size));
  ASSIGN_OR_RETURN(at::Tensor positions,
                   weights.Table(model + "wpe.weight", config.max_positions,
                                 config.hidden_size));
  std::vector<Gpt2Layer> layers;
  for (int64_t i = 0; i < config.num_layers; ++i) {
    ASSIGN_OR_RETURN(
        Gpt2Layer layer,
        LoadLayer(config, absl::StrCat(model, "h.", i, "."), weights));
    layers.push_back(std::move(layer));
  }
  ASSIGN_OR_RETURN(LayerNormWeights final_norm,
                   LoadNorm(model + "ln_f", config.hidden_size, weights));
  ASSIGN_OR_RETURN(Linear head, weights.LoadHead(config, tokens));
  return std::make_unique<Gpt2Decoder>(
      config, Gpt2Weights{.tokens = std::move(tokens),
                          .positions = std::move(positions),
                          .layers = std::move(layers),
                          .final_norm = std::move(final_norm),
                          .head = std::move(head)});
}

}  // namespace espalier
