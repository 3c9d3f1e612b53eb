#include "common/model/files/architectures/architecture.h"
#include "common/model/files/layer_windows.h"
#include "common/model/files/llama_fields.h"

namespace espalier {
namespace {

// A Llama whose queries, keys and values have a bias.
void ReadQwen2Folder(JsonFields& fields, ModelConfig& config) {
  ReadLlamaFields(fields, config);
  for (LayerShape& layer : config.layers) {
    layer.attention_bias = true;
    layer.attention_out_bias = false;
  }
  ReadQwenWindows(fields, config);
}

}  // namespace

Architecture Qwen2Architecture() {
  return {.folder_name = "Qwen2ForCausalLM",
          .read_folder = ReadQwen2Folder,
          .gguf_name = "qwen2",
          .read_gguf = ReadDenseGguf};
}

}  // namespace espalier
