#include <vector>

#include "absl/strings/str_cat.h"
#include "common/model/files/architectures/architecture.h"
#include "common/model/files/layer_windows.h"
#include "common/model/files/llama_fields.h"

namespace espalier {
namespace {

constexpr int64_t kSmolLm3Interval = 4;

// Every so many layers do not rotate.
void SkipRotation(int64_t interval, ModelConfig& config) {
  for (int64_t i = interval - 1; i < config.num_layers; i += interval) {
    config.layers[i].rotary = LayerShape::kNoRotation;
  }
}

// Layers that do not rotate: a list with a 0 for each, or every so many.
void ReadNoRope(JsonFields& fields, ModelConfig& config) {
  if (!fields.Has("no_rope_layers")) {
    SkipRotation(fields.Size("no_rope_layer_interval", kSmolLm3Interval),
                 config);
    return;
  }
  const std::vector<int32_t> rotates = fields.Indices("no_rope_layers");
  if (static_cast<int64_t>(rotates.size()) < config.num_layers) {
    fields.Fail("no_rope_layers",
                absl::StrCat("must have an entry for each of ",
                             config.num_layers, " layers"));
    return;
  }
  for (int64_t i = 0; i < config.num_layers; ++i) {
    if (rotates[i] == 0) config.layers[i].rotary = LayerShape::kNoRotation;
  }
}

void ReadSmolLm3Folder(JsonFields& fields, ModelConfig& config) {
  ReadLlamaFields(fields, config, {.rope_theta = 2000000.0, .tied_head = true});
  ReadNoRope(fields, config);
  CheckFullAttention(fields);
}

// The file does not say which layers do not rotate.
void ReadSmolLm3Gguf(GgufFields& fields, ModelConfig& config) {
  ReadDenseGguf(fields, config);
  SkipRotation(kSmolLm3Interval, config);
}

}  // namespace

Architecture SmolLm3Architecture() {
  return {.folder_name = "SmolLM3ForCausalLM",
          .read_folder = ReadSmolLm3Folder,
          .gguf_name = "smollm3",
          .read_gguf = ReadSmolLm3Gguf,
          .gguf_interleaves_heads = true};
}

}  // namespace espalier
