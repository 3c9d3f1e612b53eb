#ifndef ESPALIER_COMMON_MODEL_FILES_LAYER_FEATURES_H_
#define ESPALIER_COMMON_MODEL_FILES_LAYER_FEATURES_H_

#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/model/files/model_config.h"

namespace espalier {

// Names what a description may ask for beyond a plain Llama, of which all
// layers are alike. A back end lists what it has, so that it refuses the rest
// by name.
enum class LayerFeature {
  kExperts,
  kWindows,
  kSeveralRotaryTables,
  kUnrotatedLayers,
  kNormsAfter,      // of what attention and feed-forward give
  kNoNormsBefore,   // inputs are not normalized
  kNormOfAllHeads,  // HeadNorm::kAllHeads
  kQueryScalar,     // scores are divided by another root than that of head_dim
  kEmbeddingScale,  // embeddings are multiplied by a number
  kScoreSoftcap,
  kLogitSoftcap,
  kUnlikeLayers,  // layers differ in anything else
};

const char* NameOf(LayerFeature feature);

// Returns what the model needs, in the order above.
std::vector<LayerFeature> FeaturesOf(const ModelConfig& config);

// UNIMPLEMENTED: the model needs a feature that is not in `has`; the message is
// "<backend> has no <feature>".
absl::Status CheckFeatures(const ModelConfig& config,
                           absl::Span<const LayerFeature> has,
                           std::string_view backend);

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_FILES_LAYER_FEATURES_H_
