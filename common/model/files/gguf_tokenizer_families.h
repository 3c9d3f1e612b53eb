#ifndef ESPALIER_COMMON_MODEL_FILES_GGUF_TOKENIZER_FAMILIES_H_
#define ESPALIER_COMMON_MODEL_FILES_GGUF_TOKENIZER_FAMILIES_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"

namespace espalier {

// Describes what tokenizer.ggml.pre says of how a text becomes words. Names
// that llama.cpp maps to the same regular expressions are one family; the
// patterns are those of the models' own tokenizer.json.
struct GgufTokenizerFamily {
  absl::Span<const std::string_view> names;
  absl::Span<const std::string_view> patterns;
  std::optional<size_t> split_digits = {};  // after so many of the patterns
  bool normalize_to_nfc = false;
  bool ignore_merges = false;
  bool adds_bos = false;  // unless the file says something else
};

// Null: no family has this name.
const GgufTokenizerFamily* FindGgufTokenizerFamily(std::string_view name);

std::vector<std::string> GgufTokenizerNames();  // of all families

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_FILES_GGUF_TOKENIZER_FAMILIES_H_
