#ifndef ESPALIER_COMMON_MODEL_FILES_GGUF_CONFIG_H_
#define ESPALIER_COMMON_MODEL_FILES_GGUF_CONFIG_H_

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/model/files/architectures/architecture.h"
#include "common/model/files/gguf_file.h"
#include "common/model/files/model_config.h"
#include "common/speculation/types.h"

namespace espalier {

inline constexpr std::string_view kTokenTensor = "token_embd.weight";
inline constexpr std::string_view kOutputTensor = "output.weight";
// Names the tensor by which Llama 3.1's rotary frequencies are divided:
// [head_dim / 2].
inline constexpr std::string_view kRopeFactorsTensor = "rope_freqs.weight";

// Reads the configuration in a GGUF file: its metadata, and what follows from
// which tensors there are.
// INVALID_ARGUMENT names file, field and limit. UNIMPLEMENTED: another
// architecture (the message lists the known ones), or an option that this
// engine does not have.
absl::StatusOr<ModelConfig> ReadGgufConfig(const GgufFile& file);

// Reads the end tokens of the metadata: of a text, of a turn, of a message.
// INVALID_ARGUMENT: not one of `num_tokens` tokens.
absl::StatusOr<std::vector<TokenId>> ReadGgufEosIds(const GgufFile& file,
                                                    int64_t num_tokens);

// Returns the file's row of the table. UNIMPLEMENTED: no architecture has its
// name; the message lists the known ones.
absl::StatusOr<const Architecture*> GgufArchitecture(const GgufFile& file);

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_FILES_GGUF_CONFIG_H_
