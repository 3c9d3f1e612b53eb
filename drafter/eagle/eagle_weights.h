#ifndef ESPALIER_DRAFTER_EAGLE_EAGLE_WEIGHTS_H_
#define ESPALIER_DRAFTER_EAGLE_EAGLE_WEIGHTS_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/model/native/native_weights.h"
#include "drafter/eagle/eagle_config.h"
#include "drafter/heads/draft_vocabulary.h"
#include "drafter/heads/head_runtime.h"
#include "drafter/heads/head_target.h"

namespace espalier::drafter {

// The weights of a head, packed, including those shared with its target.
// Constant after loading.
struct EagleWeights {
  nn::HugePageArena arena;               // owns what the matrices point to
  nn::PackedMatrix tokens;               // embedding [vocab, hidden]
  std::vector<NativeNorm> fc_norms;      // [taps], or empty
  std::optional<NativeNorm> input_norm;  // of all taps together
  NativeLinear fc;  // EAGLE-3: taps -> hidden; EAGLE-1: 2 hidden -> hidden
  // EAGLE-3 only: norms of the embedding and of the feature, and of the output.
  NativeNorm embedding_norm;
  NativeNorm feature_norm;
  NativeNorm output_norm;
  NativeLayer layer;         // EAGLE-3: its q, k and v have 2 hidden inputs
  NativeLinear output_rows;  // hidden -> draft vocabulary
};

struct LoadedEagle {
  EagleConfig config;
  std::unique_ptr<const EagleWeights> weights = {};
  DraftVocabulary vocabulary;
};

// Loads a head from its folder (config.json, *.safetensors). Strict: a tensor
// that is missing, misshapen or unknown is an error that names it.
absl::StatusOr<LoadedEagle> LoadEagle(const std::string& folder,
                                      const HeadTarget& target,
                                      const HeadRuntime& runtime);

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_EAGLE_EAGLE_WEIGHTS_H_
