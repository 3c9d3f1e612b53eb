#include "common/model/files/architectures/architecture.h"
#include "common/model/files/layer_windows.h"
#include "common/model/files/llama_fields.h"

namespace espalier {
namespace {

// A Llama whose queries and keys have a norm.
void ReadQwen3Folder(JsonFields& fields, ModelConfig& config) {
  if (!fields.Has("head_dim")) fields.Fail("head_dim", "is missing");
  ReadLlamaFields(fields, config);
  for (LayerShape& layer : config.layers) {
    layer.head_norm = HeadNorm::kEachHead;
  }
  if (fields.Flag("attention_bias", false)) {
    fields.Unimplemented("attention_bias true");
  }
  ReadQwenWindows(fields, config);
}

void ReadQwen3Gguf(GgufFields& fields, ModelConfig& config) {
  ReadDenseGguf(fields, config);
  for (LayerShape& layer : config.layers) {
    layer.head_norm = HeadNorm::kEachHead;
  }
}

}  // namespace

Architecture Qwen3Architecture() {
  return {.folder_name = "Qwen3ForCausalLM",
          .read_folder = ReadQwen3Folder,
          .gguf_name = "qwen3",
          .read_gguf = ReadQwen3Gguf};
}

}  // namespace espalier
