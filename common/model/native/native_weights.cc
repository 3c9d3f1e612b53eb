#include "common/model/native/native_weights.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/model/native/native_mixture.h"
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

namespace {

absl::StatusOr<NativeNorm> LoadRmsNorm(const std::string& name, int64_t size,
                                       bool is_there,
                                       NativeWeightLoader& loader) {
  if (!is_there) return NativeNorm();
  ASSIGN_OR_RETURN(std::vector<float> weight, loader.Vector(name, size));
  return NativeNorm{.weight = std::move(weight)};
}

// `mlp`: the prefix of its tensors' names.
absl::StatusOr<NativeMlp> LoadMlp(const std::string& mlp, int64_t hidden,
                                  int64_t ffn, bool has_bias,
                                  NativeWeightLoader& loader) {
  NativeMlp loaded;
  ASSIGN_OR_RETURN(
      loaded.up,
      loader.Linear({{mlp + "gate_proj", ffn}, {mlp + "up_proj", ffn}},
                    {.inputs = hidden, .has_bias = has_bias, .gated = true}));
  ASSIGN_OR_RETURN(loaded.down,
                   loader.Linear({{mlp + "down_proj", hidden}},
                                 {.inputs = ffn, .has_bias = has_bias}));
  return loaded;
}

absl::StatusOr<NativeExperts> LoadExperts(const std::string& mlp,
                                          int64_t hidden,
                                          const ExpertsShape& shape,
                                          NativeWeightLoader& loader) {
  NativeExperts loaded;
  ASSIGN_OR_RETURN(loaded.router,
                   loader.Linear({{mlp + "gate", shape.count}},
                                 {.inputs = hidden, .exact = true}));
  for (int64_t i = 0; i < shape.count; ++i) {
    ASSIGN_OR_RETURN(loaded.mlps.emplace_back(),
                     LoadMlp(absl::StrCat(mlp, "experts.", i, "."), hidden,
                             shape.ffn_size, /*has_bias=*/false, loader));
  }
  return loaded;
}

absl::Status LoadAttention(const ModelConfig& config, const LayerShape& shape,
                           const std::string& attention, int64_t inputs,
                           NativeWeightLoader& loader, NativeLayer& layer) {
  const int64_t head_dim = config.head_dim;
  const int64_t q_size = config.num_heads * head_dim;
  const int64_t kv_size = config.num_kv_heads * head_dim;
  ASSIGN_OR_RETURN(
      layer.qkv,
      loader.Linear({{attention + "q_proj", q_size},
                     {attention + "k_proj", kv_size},
                     {attention + "v_proj", kv_size}},
                    {.inputs = inputs, .has_bias = shape.attention_bias}));
  const bool has_norms = shape.head_norm != HeadNorm::kNone;
  const bool each = shape.head_norm == HeadNorm::kEachHead;
  ASSIGN_OR_RETURN(layer.q_norm,
                   LoadRmsNorm(attention + "q_norm.weight",
                               each ? head_dim : q_size, has_norms, loader));
  ASSIGN_OR_RETURN(layer.k_norm,
                   LoadRmsNorm(attention + "k_norm.weight",
                               each ? head_dim : kv_size, has_norms, loader));
  ASSIGN_OR_RETURN(
      layer.attention_out,
      loader.Linear({{attention + "o_proj", config.hidden_size}},
                    {.inputs = q_size, .has_bias = shape.attention_out_bias}));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<NativeLayer> LoadLlamaLayer(const ModelConfig& config,
                                           int64_t index,
                                           const std::string& prefix,
                                           NativeWeightLoader& loader) {
  const int64_t hidden = config.hidden_size;
  ASSIGN_OR_RETURN(NativeNorm norm,
                   LoadRmsNorm(prefix + "input_layernorm.weight", hidden,
                               config.layers[index].norms_before, loader));
  ASSIGN_OR_RETURN(
      NativeLayer loaded,
      LoadLlamaLayerBehindNorm(config, index, prefix, hidden, loader));
  loaded.attention_norm = std::move(norm);
  return loaded;
}

absl::StatusOr<NativeLayer> LoadLlamaLayerBehindNorm(
    const ModelConfig& config, int64_t index, const std::string& prefix,
    int64_t inputs, NativeWeightLoader& loader) {
  const LayerShape& shape = config.layers[index];
  const int64_t hidden = config.hidden_size;
  NativeLayer loaded;
  loaded.activation = ActivationOf(shape.activation);
  RETURN_IF_ERROR(LoadAttention(config, shape, prefix + "self_attn.", inputs,
                                loader, loaded));
  ASSIGN_OR_RETURN(loaded.ffn_norm,
                   LoadRmsNorm(prefix + "post_attention_layernorm.weight",
                               hidden, shape.norms_before, loader));
  ASSIGN_OR_RETURN(loaded.attention_out_norm,
                   LoadRmsNorm(prefix + "attention_output_norm.weight", hidden,
                               shape.norms_after, loader));
  ASSIGN_OR_RETURN(loaded.ffn_out_norm,
                   LoadRmsNorm(prefix + "ffn_output_norm.weight", hidden,
                               shape.norms_after, loader));
  if (shape.is_dense()) {
    ASSIGN_OR_RETURN(loaded.mlp,
                     LoadMlp(prefix + "mlp.", hidden, shape.ffn_size,
                             shape.mlp_bias, loader));
  } else {
    ASSIGN_OR_RETURN(loaded.experts, LoadExperts(prefix + "mlp.", hidden,
                                                 shape.experts, loader));
    RETURN_IF_ERROR(CheckAlike(loaded.experts, prefix));
  }
  return loaded;
}

namespace {

absl::Status LoadLlama(const ModelConfig& config, NativeWeightLoader& loader,
                       NativeWeights& weights) {
  const int64_t vocab = config.vocab_size, hidden = config.hidden_size;
  for (int64_t i = 0; i < config.num_layers; ++i) {
    ASSIGN_OR_RETURN(
        NativeLayer layer,
        LoadLlamaLayer(config, i, absl::StrCat("model.layers.", i, "."),
                       loader));
    weights.layers.push_back(std::move(layer));
  }
  ASSIGN_OR_RETURN(weights.final_norm.weight,
                   loader.Vector("model.norm.weight", hidden));
  ASSIGN_OR_RETURN(weights.tokens,
                   loader.Table("model.embed_tokens.weight",
                                {.rows = vocab, .columns = hidden}));
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
                                          int64_t index,
                                          const std::string& layer,
                                          NativeWeightLoader& loader) {
  const LayerShape& shape = config.layers[index];
  const int64_t hidden = config.hidden_size, ffn = shape.ffn_size;
  auto linear = [&](const char* name, int64_t inputs, int64_t outputs) {
    return loader.Linear(
        {{absl::StrCat(layer, name), outputs}},
        {.inputs = inputs, .has_bias = true, .transposed = true});
  };
  NativeLayer loaded;
  loaded.activation = ActivationOf(shape.activation);
  ASSIGN_OR_RETURN(loaded.attention_norm,
                   LoadNorm(layer + "ln_1", hidden, loader));
  ASSIGN_OR_RETURN(loaded.qkv, linear("attn.c_attn", hidden, 3 * hidden));
  ASSIGN_OR_RETURN(loaded.attention_out, linear("attn.c_proj", hidden, hidden));
  ASSIGN_OR_RETURN(loaded.ffn_norm, LoadNorm(layer + "ln_2", hidden, loader));
  ASSIGN_OR_RETURN(loaded.mlp.up, linear("mlp.c_fc", hidden, ffn));
  ASSIGN_OR_RETURN(loaded.mlp.down, linear("mlp.c_proj", ffn, hidden));
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
        LoadGpt2Layer(config, i, absl::StrCat(model, "h.", i, "."), loader));
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
  switch (config.kind) {
    case DecoderKind::kLlama:
      RETURN_IF_ERROR(LoadLlama(config, loader, *weights));
      break;
    case DecoderKind::kGpt2:
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
