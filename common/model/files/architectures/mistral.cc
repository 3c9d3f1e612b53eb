#include "common/model/files/architectures/architecture.h"
#include "common/model/files/llama_fields.h"

namespace espalier {
namespace {

// A Llama whose layers may all have the same window. In transformers, absent is
// not null.
void ReadMistralFolder(JsonFields& fields, ModelConfig& config) {
  ReadLlamaFields(fields, config);
  constexpr int64_t kDefaultWindow = 4096;
  const bool none =
      fields.json().contains("sliding_window") && !fields.Has("sliding_window");
  if (none) return;
  const int64_t window = fields.Size("sliding_window", kDefaultWindow);
  // A window that every text fits into is none.
  if (window >= config.max_positions) return;
  for (LayerShape& layer : config.layers) layer.window = window;
}

}  // namespace

// Its GGUF files call themselves llama.
Architecture MistralArchitecture() {
  return {.folder_name = "MistralForCausalLM",
          .read_folder = ReadMistralFolder};
}

}  // namespace espalier
