#ifndef ESPALIER_COMMON_MODEL_FILES_MODEL_IDENTITY_H_
#define ESPALIER_COMMON_MODEL_FILES_MODEL_IDENTITY_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/speculation/messages.h"
#include "common/speculation/types.h"
#include "common/tokenizer/tokenizer.h"

namespace espalier {

// Holds what every service knows of the target: its identity and its tokenizer.
struct TargetIdentity {
  ModelIdentity identity;
  std::unique_ptr<Tokenizer> tokenizer;
  // Lists what ends a text, ascending: the end tokens of the configuration and
  // of the tokenizer, and what ends a turn by the chat template. May be empty.
  std::vector<TokenId> end_tokens;
};

// Loads the tokenizer of the model at `path`: a folder's, a tokenizer.json
// alone (Tokenizer::Load), or a GGUF file's (see GgufPathOf).
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(
    const std::string& path);

// Reads configuration and tokenizer of the model at `path`, not its weights.
// `name` empty: the name of the folder, or of the file without its ending.
// Errors name the file and the field.
absl::StatusOr<TargetIdentity> IdentifyTarget(const std::string& path,
                                              const std::string& name);

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_FILES_MODEL_IDENTITY_H_
