#include <cstdint>

#include "common/model/files/architectures/architecture.h"
#include "common/model/files/architectures/gemma_layers.h"
#include "common/model/files/layer_windows.h"

namespace espalier {
namespace {

constexpr int64_t kGemma2Window = 4096;
constexpr int64_t kGemma2Pattern = 2;  // every second layer sees the whole text
constexpr double kScoreSoftcap = 50, kLogitSoftcap = 30;

// layer_types, or every other layer.
void ReadGemma2Windows(JsonFields& fields, ModelConfig& config) {
  const int64_t window = fields.Size("sliding_window", kGemma2Window);
  const auto types = ReadLayerTypes(fields, config);
  for (int64_t i = 0; i < config.num_layers; ++i) {
    if (types.has_value() ? (*types)[i] : (i + 1) % kGemma2Pattern != 0) {
      SetWindow(i, window, config);
    }
  }
}

void ReadGemma2Folder(JsonFields& fields, ModelConfig& config) {
  ReadGemmaFolder(fields,
                  {.max_positions = 8192,
                   .score_softcap = kScoreSoftcap,
                   .logit_softcap = kLogitSoftcap},
                  config);
  ReadGemma2Windows(fields, config);
}

// llama.cpp has the same defaults, and knows the pattern by itself.
void ReadGemma2Gguf(GgufFields& fields, ModelConfig& config) {
  constexpr int64_t kLayersOf27B = 46;
  ReadGemmaGguf(fields, kLayersOf27B, config);
  config.logit_softcap =
      fields.Positive("final_logit_softcapping", kLogitSoftcap);
  const double score_softcap =
      fields.Positive("attn_logit_softcapping", kScoreSoftcap);
  const int64_t window = fields.Size("attention.sliding_window", kGemma2Window);
  const int64_t pattern =
      fields.Size("attention.sliding_window_pattern", kGemma2Pattern);
  for (int64_t i = 0; i < config.num_layers; ++i) {
    config.layers[i].score_softcap = score_softcap;
    if ((i + 1) % pattern != 0) SetWindow(i, window, config);
  }
}

}  // namespace

Architecture Gemma2Architecture() {
  return {.folder_name = "Gemma2ForCausalLM",
          .read_folder = ReadGemma2Folder,
          .folder_tensors = kGemmaTensors,
          .folder_norms_less_one = true,
          .gguf_name = "gemma2",
          .read_gguf = ReadGemma2Gguf};
}

}  // namespace espalier
