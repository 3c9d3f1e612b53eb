#include "common/model/native/native_weights.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/model/native/native_weight_loader.h"

namespace espalier {
namespace {

nn::Activation ActivationOf(Activation activation) {
  switch (activation) {
    case Activation::kSilu:
      return nn::Activation::kSilu;
    case Activation::kGelu:
      return nn::Activation::kGelu;
    case Activation::kGeluTanh:
      return nn::Activation::kGeluTanh;
  }
  ESPALIER_CHECK(false);
}

}  // namespace

absl::StatusOr<NativeLayer> LoadLlamaLayer(const ModelConfig& config,
                                           const std::string& layer,
                                           NativeWeightLoader& loader) {
  const int64_t hidden = config.hidden_size;
  ASSIGN_OR_RETURN(std::vector<float> norm,
                   loader.Vector(layer + "input_layernorm.weight", hidden));
  ASSIGN_OR_RETURN(NativeLayer loaded,
                   LoadLlamaLayerBehindNorm(config, layer, hidden, loader));
  loaded.attention_norm.weight = std::move(norm);
  return loaded;
}

absl::StatusOr<NativeLayer> LoadLlamaLayerBehindNorm(
    const ModelConfig& config, const std::string& layer, int64_t inputs,
    NativeWeightLoader& loader) {
  const std::string attention = layer + "self_attn.";
  const int64_t hidden = config.hidden_size, ffn = config.ffn_size;
  const int64_t q_size = config.num_heads * config.head_dim;
  const int64_t kv_size = config.num_kv_heads * config.head_dim;

  NativeLayer loaded;
  ASSIGN_OR_RETURN(
      loaded.qkv,
      loader.Linear({{attention + "q_proj", q_size},
                     {attention + "k_proj", kv_size},
                     {attention + "v_proj", kv_size}},
                    {.inputs = inputs, .has_bias = config.attention_bias}));
  if (config.qk_norm) {
    ASSIGN_OR_RETURN(loaded.q_norm, loader.Vector(attention + "q_norm.weight",
                                                  config.head_dim));
    ASSIGN_OR_RETURN(loaded.k_norm, loader.Vector(attention + "k_norm.weight",
                                                  config.head_dim));
  }
  ASSIGN_OR_RETURN(
      loaded.attention_out,
      loader.Linear({{attention + "o_proj", hidden}},
                    {.inputs = q_size, .has_bias = config.attention_out_bias}));
  ASSIGN_OR_RETURN(
      loaded.ffn_norm.weight,
      loader.Vector(layer + "post_attention_layernorm.weight", hidden));
  ASSIGN_OR_RETURN(
      loaded.up,
      loader.Linear(
          {{layer + "mlp.gate_proj", ffn}, {layer + "mlp.up_proj", ffn}},
          {.inputs = hidden, .has_bias = config.mlp_bias, .gated = true}));
  ASSIGN_OR_RETURN(loaded.down,
                   loader.Linear({{layer + "mlp.down_proj", hidden}},
                                 {.inputs = ffn, .has_bias = config.mlp_bias}));
  return loaded;
}

namespace {

absl::Status LoadLlama(const ModelConfig& config, NativeWeightLoader& loader,
                       NativeWeights& weights) {
  const int64_t vocab = config.vocab_size, hidden = config.hidden_size;
  for (int64_t i = 0; i < config.num_layers; ++i) {
    ASSIGN_OR_RETURN(
        NativeLayer layer,
        LoadLlamaLayer(config, absl::StrCat("model.layers.", i, "."), loader));
    weights.layers.push_back(std::move(layer));
  }
  ASSIGN_OR_RETURN(weights.final_norm.weight,
                   loader.Vector("model.norm.weight", hidden));
  ASSIGN_OR_RETURN(weights.tokens,
                   loader.Table("model.embed_tokens.weight",
                                {.rows = vocab, .columns = hidden}));
  weights.frequencies = RotaryFrequencies(config);
  return absl::OkStatus();
}

absl::StatusOr<NativeNorm> LoadNorm(const std::string& name, int64_t hidden,
                                    NativeWeightLoader& loader) {
  NativeNorm norm;
  ASSIGN_OR_RETURN(norm.weight, loader.Vector(name + ".weight", hidden));
  ASSIGN_OR_RETURN(norm.bias, loader.Vector(name + ".bias", hidden));
  return norm;
}

absl::StatusOr<NativeLayer> LoadGpt2Layer(const ModelConfig& config,
                                          const std::string& layer,
                                          NativeWeightLoader& loader) {
  const int64_t hidden = config.hidden_size, ffn = config.ffn_size;
  auto linear = [&](const char* name, int64_t inputs, int64_t outputs) {
    return loader.Linear(
        {{absl::StrCat(layer, name), outputs}},
        {.inputs = inputs, .has_bias = true, .transposed = true});
  };
  NativeLayer loaded;
  ASSIGN_OR_RETURN(loaded.attention_norm,
                   LoadNorm(layer + "ln_1", hidden, loader));
  ASSIGN_OR_RETURN(loaded.qkv, linear("attn.c_attn", hidden, 3 * hidden));
  ASSIGN_OR_RETURN(loaded.attention_out, linear("attn.c_proj", hidden, hidden));
  ASSIGN_OR_RETURN(loaded.ffn_norm, LoadNorm(layer + "ln_2", hidden, loader));
  ASSIGN_OR_RETURN(loaded.up, linear("mlp.c_fc", hidden, ffn));
  ASSIGN_OR_RETURN(loaded.down, linear("mlp.c_proj", ffn, hidden));
  return loaded;
}

absl::Status LoadGpt2(const ModelConfig& config, NativeWeightLoader& loader,
                      NativeWeights& weights) {
  // The first GPT-2 files were written without the outer module's name.
  const std::string model = loader.Has("wte.weight") ? "" : "transformer.";
  const int64_t hidden = config.hidden_size;
  for (int64_t i = 0; i < config.num_layers; ++i) {
    ASSIGN_OR_RETURN(
        NativeLayer layer,
        LoadGpt2Layer(config, absl::StrCat(model, "h.", i, "."), loader));
    weights.layers.push_back(std::move(layer));
  }
  ASSIGN_OR_RETURN(weights.final_norm,
                   LoadNorm(model + "ln_f", hidden, loader));
  ASSIGN_OR_RETURN(weights.tokens, loader.Table(model + "wte.weight",
                                                {.rows = config.vocab_size,
                                                 .columns = hidden}));
  ASSIGN_OR_RETURN(
      weights.positions,
      loader.Table(model + "wpe.weight",
                   {.rows = config.max_positions, .columns = hidden}));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<NativeWeights>> LoadNativeWeights(
    const ModelConfig& config, const WeightFiles& files, ComputeDType dtype,
    nn::ThreadPool& pool) {
  auto weights = std::make_unique<NativeWeights>();
  NativeWeightLoader loader(
      files, {.dtype = dtype, .arena = weights->arena, .pool = pool});
  weights->activation = ActivationOf(config.activation);
  switch (config.architecture) {
    case Architecture::kLlama:
      RETURN_IF_ERROR(LoadLlama(config, loader, *weights));
      break;
    case Architecture::kGpt2:
      RETURN_IF_ERROR(LoadGpt2(config, loader, *weights));
      break;
  }
  if (config.tied_head) {
    weights->head.matrix = weights->tokens;
  } else {
    ASSIGN_OR_RETURN(
        weights->head,
        loader.Linear({{"lm_head", config.vocab_size}},
                      {.inputs = config.hidden_size, .vocabulary = true}));
  }
  weights->bytes = loader.bytes();
  return weights;
}

}  // namespace espalier
