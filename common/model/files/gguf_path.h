#ifndef ESPALIER_COMMON_MODEL_FILES_GGUF_PATH_H_
#define ESPALIER_COMMON_MODEL_FILES_GGUF_PATH_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace espalier {

// Looks for a model. `path` may be a folder in Hugging Face's layout, a .gguf
// file, or a folder with one .gguf file, or the parts of one, and without
// config.json. Returns the .gguf file, or its first part; nullopt: a folder in
// Hugging Face's layout. NOT_FOUND: nothing is there; says what to do if the
// path looks like the name of a model of Hugging Face. INVALID_ARGUMENT: a
// folder with several .gguf files.
absl::StatusOr<std::optional<std::string>> GgufPathOf(const std::string& path);

// "-00002-of-00003.gguf": what the name of part 2 of 3 ends with.
inline constexpr int64_t kMaxGgufParts = 99999;
std::string GgufPartEnding(int64_t part, int64_t count);

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_FILES_GGUF_PATH_H_
