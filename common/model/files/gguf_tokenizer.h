#ifndef ESPALIER_COMMON_MODEL_FILES_GGUF_TOKENIZER_H_
#define ESPALIER_COMMON_MODEL_FILES_GGUF_TOKENIZER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "common/model/files/gguf_file.h"
#include "common/tokenizer/tokenizer.h"
#include "common/tokenizer/tokenizer_file.h"

namespace espalier {

// Reads the tokenizer in a GGUF file, with its end tokens and chat template.
// Where the file leaves something open (form C, what is added), it is as in the
// tokenizer.json of the family that tokenizer.ggml.pre names. INVALID_ARGUMENT:
// a malformed file; names the key. UNIMPLEMENTED: a kind of tokenizer that this
// engine does not have; lists the known ones.
absl::StatusOr<std::unique_ptr<Tokenizer>> ReadGgufTokenizer(
    const GgufFile& file);

// Reads the same tokenizer as the parts of a tokenizer.json.
absl::StatusOr<TokenizerFile> ReadGgufTokenizerFile(const GgufFile& file);

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_FILES_GGUF_TOKENIZER_H_
