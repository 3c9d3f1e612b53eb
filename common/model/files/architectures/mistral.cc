#include "common/model/files/architectures/architecture.h"
#include "common/model/files/layer_windows.h"
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
  for (int64_t i = 0; i < config.num_layers; ++i) SetWindow(i, window, config);
}

}  // namespace

// Its GGUF files call themselves llama.
Architecture MistralArchitecture() {
  return {.folder_name = "MistralForCausalLM",
          .read_folder = ReadMistralFolder};
}

}  // namespace espalier
