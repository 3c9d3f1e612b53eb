#ifndef ESPALIER_COMMON_MODEL_FILES_ARCHITECTURES_ARCHITECTURE_H_
#define ESPALIER_COMMON_MODEL_FILES_ARCHITECTURES_ARCHITECTURE_H_

#include <string>
#include <string_view>

#include "absl/types/span.h"
#include "common/json/json_fields.h"
#include "common/model/files/gguf_fields.h"
#include "common/model/files/model_config.h"
#include "common/model/files/tensor_names.h"

namespace espalier {

// Describes what the files of an architecture say, and how they say it. Each is
// one file of this folder and one line in architectures.cc; see the README.
struct Architecture {
  // In the list `architectures` of config.json.
  const char* folder_name = nullptr;
  // Reads config.json, vocab_size and eos_token_id excepted. Mistakes stay in
  // `fields`. Fills in sizes, rotary tables and one LayerShape for each layer.
  void (*read_folder)(JsonFields& fields, ModelConfig& config) = nullptr;
  // The names of a layer's tensors in a folder that are not those of
  // tensor_names.h.
  absl::Span<const TensorName> folder_tensors = {};
  // A folder's norms are stored less one: a row is multiplied by 1 + weight.
  bool folder_norms_less_one = false;

  // general.architecture of a GGUF file; null: such files are not read.
  const char* gguf_name = nullptr;
  // Reads a GGUF file's metadata in the same way. What follows from which
  // tensors there are (biases, a tied head, the vocabulary) is read elsewhere.
  void (*read_gguf)(GgufFields& fields, ModelConfig& config) = nullptr;
  // llama.cpp rotates neighbours, and so has the rows of queries and keys in
  // another order (TensorView::interleaved_heads).
  bool gguf_interleaves_heads = false;
};

// Null: no architecture has this name.
const Architecture* FindFolderArchitecture(std::string_view name);
const Architecture* FindGgufArchitecture(std::string_view name);

// Sorted names with commas between them, for messages.
std::string KnownFolderArchitectures();
std::string KnownGgufArchitectures();

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_FILES_ARCHITECTURES_ARCHITECTURE_H_
