#include "common/model/files/architectures/architecture.h"
#include "common/model/files/llama_fields.h"

namespace espalier {
namespace {

void ReadLlamaFolder(JsonFields& fields, ModelConfig& config) {
  ReadLlamaFields(fields, config);
}

}  // namespace

Architecture LlamaArchitecture() {
  return {.folder_name = "LlamaForCausalLM",
          .read_folder = ReadLlamaFolder,
          .gguf_name = "llama",
          .read_gguf = ReadDenseGguf,
          .gguf_interleaves_heads = true};
}

}  // namespace espalier
