#ifndef ESPALIER_DRAFTER_EAGLE_EAGLE_FILES_H_
#define ESPALIER_DRAFTER_EAGLE_EAGLE_FILES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/model/files/weight_files.h"
#include "drafter/eagle/eagle_config.h"
#include "drafter/heads/draft_vocabulary.h"
#include "drafter/heads/head_target.h"

namespace espalier::drafter {

// The folder of a head (config.json, *.safetensors), and what its tensors are
// called. Constant.
struct EagleFiles {
  WeightFiles files;
  EagleConfig config;
  DraftVocabulary vocabulary;
  std::string prefix;  // "" or "model."
  std::string layer;   // prefix and "midlayer." or "layers.0."

  // Tensors outside the layers may lack the layers' prefix.
  std::string Spelled(const char* name) const;
  // Without ".weight"; not there: the target's.
  std::string output_rows() const;
  // Returns the tensors that belong to the layout but are no weights of the
  // network.
  std::vector<std::string> unread() const;

  // Checks that the target's rows can replace a tensor that the head lacks.
  // INVALID_ARGUMENT names it.
  absl::Status CheckShared(const char* name) const;
};

// random_weights: a seed, for an EAGLE-3 head of the folder's config.json that
// proposes the first tokens of the vocabulary. INVALID_ARGUMENT, NOT_FOUND,
// UNIMPLEMENTED name the tensor or the field.
absl::StatusOr<EagleFiles> OpenEagle(
    const std::string& folder, const HeadTarget& target,
    std::optional<uint64_t> random_weights = std::nullopt);

// Returns an error of loading the folder, which it names.
absl::Status NamingFolder(const absl::Status& status,
                          const std::string& folder);

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_EAGLE_EAGLE_FILES_H_
