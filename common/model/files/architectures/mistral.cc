#include "common/model/files/architectures/architecture.h"
#include "common/model/files/layer_windows.h"
#include "common/model/files/llama_fields.h"

namespace espalier {
namespace {

// A Llama whose layers may all have the same window.
void ReadMistralFolder(JsonFields& fields, ModelConfig& config) {
  ReadLlamaFields(fields, config);
  ReadCommonWindow(fields, config);
}

}  // namespace

// Its GGUF files call themselves llama.
Architecture MistralArchitecture() {
  return {.folder_name = "MistralForCausalLM",
          .read_folder = ReadMistralFolder};
}

}  // namespace espalier
