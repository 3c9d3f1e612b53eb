#include <algorithm>

#include "common/model/files/architectures/architecture.h"
#include "common/model/files/llama_fields.h"

namespace espalier {
namespace {

void ReadGpt2Folder(JsonFields& fields, ModelConfig& config) {
  config.kind = DecoderKind::kGpt2;
  config.num_layers = ReadLayerCount(fields, "n_layer");
  config.hidden_size = fields.Size("n_embd");
  config.num_heads = fields.Size("n_head");
  config.num_kv_heads = config.num_heads;
  if (config.hidden_size % config.num_heads != 0) {
    fields.Fail("n_head", "must divide n_embd");
  }
  config.head_dim = std::max<int64_t>(1, config.hidden_size / config.num_heads);
  config.max_positions = fields.Size("n_positions");
  config.norm_epsilon = fields.Positive("layer_norm_epsilon", 1e-5);
  config.tied_head = fields.Flag("tie_word_embeddings", true);
  const LayerShape layer = {
      .rotary = LayerShape::kNoRotation,
      .activation = ReadActivation(fields, "activation_function", "gelu_new"),
      .ffn_size = fields.Size("n_inner", 4 * config.hidden_size)};
  config.layers.assign(config.num_layers, layer);
  if (!fields.Flag("scale_attn_weights", true)) {
    fields.Unimplemented("scale_attn_weights false");
  }
  if (fields.Flag("scale_attn_by_inverse_layer_idx", false)) {
    fields.Unimplemented("scale_attn_by_inverse_layer_idx true");
  }
}

}  // namespace

Architecture Gpt2Architecture() {
  return {.folder_name = "GPT2LMHeadModel", .read_folder = ReadGpt2Folder};
}

}  // namespace espalier
