#include "common/model/files/architectures/architecture.h"
#include "common/model/files/llama_fields.h"

namespace espalier {
namespace {

constexpr TensorName kOlmo2Tensors[] = {
    {"post_attention_layernorm.weight", "attention_output_norm.weight"},
    {"post_feedforward_layernorm.weight", "ffn_output_norm.weight"},
};

// Outputs are normalized instead of inputs, and queries and keys over all heads
// of a row.
void DescribeOlmo2(ModelConfig& config) {
  for (LayerShape& layer : config.layers) {
    layer.norms_before = false;
    layer.norms_after = true;
    layer.head_norm = HeadNorm::kAllHeads;
  }
}

void ReadOlmo2Folder(JsonFields& fields, ModelConfig& config) {
  ReadLlamaFields(fields, config, {.norm_epsilon = 1e-5});
  DescribeOlmo2(config);
}

void ReadOlmo2Gguf(GgufFields& fields, ModelConfig& config) {
  ReadDenseGguf(fields, config);
  DescribeOlmo2(config);
}

}  // namespace

Architecture Olmo2Architecture() {
  return {.folder_name = "Olmo2ForCausalLM",
          .read_folder = ReadOlmo2Folder,
          .folder_tensors = kOlmo2Tensors,
          .gguf_name = "olmo2",
          .read_gguf = ReadOlmo2Gguf};
}

}  // namespace espalier
