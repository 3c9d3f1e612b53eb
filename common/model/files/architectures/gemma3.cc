#include <cmath>
#include <cstdint>

#include "common/model/files/architectures/architecture.h"
#include "common/model/files/layer_windows.h"
#include "common/model/files/llama_fields.h"

namespace espalier {
namespace {

enum Gemma3Table : int32_t { kGlobal, kLocal };
constexpr int64_t kGemma3Pattern = 6;  // every sixth layer sees the whole text
constexpr double kGlobalTheta = 1e6, kLocalTheta = 1e4;

constexpr TensorName kGemma3Tensors[] = {
    {"post_attention_layernorm.weight", "attention_output_norm.weight"},
    {"pre_feedforward_layernorm.weight", "post_attention_layernorm.weight"},
    {"post_feedforward_layernorm.weight", "ffn_output_norm.weight"},
};

// What all layers have, in a folder and in a GGUF file.
void DescribeGemma3(double query_scalar, ModelConfig& config) {
  config.embedding_scale = std::sqrt(static_cast<float>(config.hidden_size));
  for (LayerShape& layer : config.layers) {
    layer.query_scalar =
        query_scalar == static_cast<double>(config.head_dim) ? 0 : query_scalar;
    layer.head_norm = HeadNorm::kEachHead;
    layer.norms_after = true;
    layer.activation = Activation::kGeluTanh;
  }
}

void MakeLocal(int64_t index, int64_t window, ModelConfig& config) {
  SetWindow(index, window, config);
  config.layers[index].rotary = kLocal;
}

// layer_types, or every so many layers full.
void ReadGemma3Windows(JsonFields& fields, ModelConfig& config) {
  const int64_t window = fields.Size("sliding_window", 4096);
  const int64_t pattern = fields.Size("sliding_window_pattern", kGemma3Pattern);
  const auto types = ReadLayerTypes(fields, config);
  for (int64_t i = 0; i < config.num_layers; ++i) {
    if (types.has_value() ? (*types)[i] : (i + 1) % pattern != 0) {
      MakeLocal(i, window, config);
    }
  }
}

// Newer files have an object for each kind of layer in rope_parameters.
void ReadGemma3Rotary(JsonFields& fields, ModelConfig& config) {
  JsonFields by_type = fields.Object("rope_parameters");
  if (!by_type.Has("full_attention")) {
    config.rotary = {
        ReadRope(fields, kGlobalTheta, config),
        {.theta = fields.Positive("rope_local_base_freq", kLocalTheta)}};
    return;
  }
  JsonFields full = by_type.Object("full_attention");
  JsonFields sliding = by_type.Object("sliding_attention");
  config.rotary = {ReadRotary(full, kGlobalTheta, {}, config),
                   ReadRotary(sliding, kLocalTheta, {}, config)};
  for (const JsonFields* part : {&by_type, &full, &sliding}) {
    fields.Adopt(part->status());
  }
}

void ReadGemma3Folder(JsonFields& fields, ModelConfig& config) {
  ReadLlamaFields(fields, config,
                  {.tied_head = true,
                   .activation_field = "hidden_activation",
                   .activation = "gelu_pytorch_tanh",
                   .head_dim = 256,
                   .max_positions = 131072});
  if (config.layers.front().activation != Activation::kGeluTanh) {
    fields.Unimplemented("hidden_activation but gelu_pytorch_tanh");
  }
  for (const char* softcap :
       {"final_logit_softcapping", "attn_logit_softcapping"}) {
    if (fields.Has(softcap)) fields.Unimplemented(softcap);
  }
  if (fields.Flag("use_bidirectional_attention", false)) {
    fields.Unimplemented("use_bidirectional_attention true");
  }
  DescribeGemma3(fields.Positive("query_pre_attn_scalar", 256.0), config);
  ReadGemma3Rotary(fields, config);
  ReadGemma3Windows(fields, config);
}

// llama.cpp knows the pattern, and the scale of the largest model, by itself.
void ReadGemma3Gguf(GgufFields& fields, ModelConfig& config) {
  constexpr int64_t kLayersOf27B = 62;
  ReadGgufFields(fields, config);
  RefuseGgufExperts(fields);
  for (const char* softcap :
       {"final_logit_softcapping", "attn_logit_softcapping"}) {
    if (fields.Has(softcap)) fields.Unimplemented(softcap, "");
  }
  const int64_t per_head = config.hidden_size / config.num_heads;
  DescribeGemma3(
      static_cast<double>(config.num_layers == kLayersOf27B ? per_head
                                                            : config.head_dim),
      config);
  if (!fields.Has("rope.freq_base"))
    config.rotary[kGlobal].theta = kGlobalTheta;
  config.rotary.push_back(
      {.theta = fields.Positive("rope.freq_base_swa", kLocalTheta)});
  const int64_t window = fields.Size("attention.sliding_window");
  const int64_t pattern =
      fields.Size("attention.sliding_window_pattern", kGemma3Pattern);
  for (int64_t i = 0; i < config.num_layers; ++i) {
    if ((i + 1) % pattern != 0) MakeLocal(i, window, config);
  }
}

}  // namespace

Architecture Gemma3Architecture() {
  return {.folder_name = "Gemma3ForCausalLM",
          .read_folder = ReadGemma3Folder,
          .folder_tensors = kGemma3Tensors,
          .folder_norms_less_one = true,
          .gguf_name = "gemma3",
          .read_gguf = ReadGemma3Gguf};
}

}  // namespace espalier
