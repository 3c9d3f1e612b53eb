#ifndef ESPALIER_COMMON_MODEL_FILES_TOKENIZER_ARTIFACTS_H_
#define ESPALIER_COMMON_MODEL_FILES_TOKENIZER_ARTIFACTS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace espalier {

struct TextFile {
  std::string name;
  std::string content;
};

// Returns the files from which Hugging Face's libraries make the tokenizer and
// the chat template of the model at `path`: tokenizer.json and config.json, and
// those of tokenizer_config.json, generation_config.json,
// special_tokens_map.json, added_tokens.json and *.jinja that exist. A folder
// in their layout has such files; for a GGUF file they are written from its
// metadata. Errors name the file.
absl::StatusOr<std::vector<TextFile>> TokenizerArtifacts(
    const std::string& path);

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_FILES_TOKENIZER_ARTIFACTS_H_
