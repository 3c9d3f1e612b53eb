#ifndef ESPALIER_COMMON_MODEL_FILES_MODEL_IDENTITY_H_
#define ESPALIER_COMMON_MODEL_FILES_MODEL_IDENTITY_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/spec/messages.h"
#include "common/tokenizer/tokenizer.h"

namespace espalier {

// What every service knows of the target: its identity and its tokenizer.
struct TargetIdentity {
  ModelIdentity identity;
  std::unique_ptr<Tokenizer> tokenizer;
};

// Reads config.json and the tokenizer of a model folder, not its weights.
// `name` empty: the folder's name. Errors name the file and the field.
absl::StatusOr<TargetIdentity> IdentifyTarget(const std::string& folder,
                                              const std::string& name);

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_FILES_MODEL_IDENTITY_H_
