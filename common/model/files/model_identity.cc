#include "common/model/files/model_identity.h"

#include <filesystem>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/model/files/model_config.h"

namespace espalier {

absl::StatusOr<TargetIdentity> IdentifyTarget(const std::string& folder,
                                              const std::string& name) {
  if (folder.empty()) {
    return absl::InvalidArgumentError("model: no folder is given");
  }
  ASSIGN_OR_RETURN(const ModelConfig config, ReadModelConfig(folder));
  ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer,
                   Tokenizer::Load(folder));
  if (tokenizer->vocab_size() > config.vocab_size) {
    return absl::InvalidArgumentError(absl::StrCat(
        folder, ": tokenizer.json has ", tokenizer->vocab_size(),
        " tokens, config.json a vocab_size of ", config.vocab_size));
  }
  // A folder may be written with a slash at its end.
  const auto path = std::filesystem::weakly_canonical(folder);
  return TargetIdentity{
      .identity = {.name = name.empty() ? path.filename().string() : name,
                   .vocab_size = config.vocab_size,
                   .tokenizer_fingerprint = tokenizer->fingerprint()},
      .tokenizer = std::move(tokenizer)};
}

}  // namespace espalier
