#ifndef ESPALIER_COMMON_MODEL_FILES_GGUF_PATH_H_
#define ESPALIER_COMMON_MODEL_FILES_GGUF_PATH_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace espalier {

// Where a model may be: a folder in Hugging Face's layout, a .gguf file, or a
// folder with one .gguf file and without config.json. Returns the .gguf file;
// nullopt: the first, or nothing is there. INVALID_ARGUMENT: a folder with
// several of them.
absl::StatusOr<std::optional<std::string>> GgufPathOf(const std::string& path);

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_FILES_GGUF_PATH_H_
