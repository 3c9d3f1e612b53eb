#include <cstdint>

#include "common/model/files/architectures/architecture.h"
#include "common/model/files/architectures/gemma_layers.h"
#include "common/model/files/layer_windows.h"
#include "common/model/files/llama_fields.h"

namespace espalier {
namespace {

enum Gemma3Table : int32_t { kGlobal, kLocal };
constexpr int64_t kGemma3Pattern = 6;  // every sixth layer sees the whole text
constexpr double kGlobalTheta = 1e6, kLocalTheta = 1e4;

void NormHeads(ModelConfig& config) {
  for (LayerShape& layer : config.layers) {
    layer.head_norm = HeadNorm::kEachHead;
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
  ReadGemmaFolder(fields, {.max_positions = 131072}, config);
  NormHeads(config);
  ReadGemma3Rotary(fields, config);
  ReadGemma3Windows(fields, config);
}

// llama.cpp knows the pattern by itself, and has no softcap of scores.
void ReadGemma3Gguf(GgufFields& fields, ModelConfig& config) {
  constexpr int64_t kLayersOf27B = 62;
  ReadGemmaGguf(fields, kLayersOf27B, config);
  NormHeads(config);
  fields.Refuse("attn_logit_softcapping", 0.0);
  constexpr const char* kSoftcap = "final_logit_softcapping";
  if (fields.Has(kSoftcap)) config.logit_softcap = fields.Positive(kSoftcap);
  if (!fields.Has("rope.freq_base")) {
    config.rotary[kGlobal].theta = kGlobalTheta;
  }
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
          .folder_tensors = kGemmaTensors,
          .folder_norms_less_one = true,
          .gguf_name = "gemma3",
          .read_gguf = ReadGemma3Gguf};
}

}  // namespace espalier
