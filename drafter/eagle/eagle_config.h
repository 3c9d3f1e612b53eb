#ifndef ESPALIER_DRAFTER_EAGLE_EAGLE_CONFIG_H_
#define ESPALIER_DRAFTER_EAGLE_EAGLE_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/model/files/model_config.h"
#include "drafter/heads/head_target.h"
#include "nlohmann/json.hpp"

namespace espalier::drafter {

enum class EagleMode {
  // EAGLE-1 (arXiv 2401.15077) and heads of its shape: EAGLE-2, HASS, the heads
  // of TAPS. Reads the target's normed state, predicts the next one, and the
  // target's own head turns it into logits.
  kEagle1,
  // EAGLE-3 (arXiv 2503.01840): reads several points of the target's residual
  // stream, has its own norm, and usually its own vocabulary. With fc_norm and
  // norm_output it is EAGLE-3.1 (arXiv 2605.09992).
  kEagle3,
};

// A head as its config.json describes it.
struct EagleConfig {
  EagleMode mode = EagleMode::kEagle3;
  // The sizes of its one layer, its own rotary base, and the target's
  // vocabulary.
  ModelConfig layer;
  int64_t target_hidden_size = 0;
  std::vector<int32_t> taps;  // of the target, as FeatureContract counts
  int64_t draft_vocab_size = 0;

  // EAGLE-3 only.
  bool fc_norm = false;               // a norm for each point, before fc
  bool norm_before_fc = false;        // one norm for all of them
  bool norm_before_residual = false;  // the residual is the normed feature
  bool norm_output = false;           // the next level reads the normed output

  FeatureContract features() const {
    return {.taps = taps, .hidden_size = target_hidden_size};
  }
};

// Parses config.json of the SafeAILab, SpecForge (SGLang), and speculators
// (vLLM) families; they count the target's layers differently. INVALID_ARGUMENT
// names the field: the head is malformed or was made for another target.
absl::StatusOr<EagleConfig> ParseEagleConfig(const nlohmann::json& json,
                                             const std::string& source,
                                             EagleMode mode,
                                             const HeadTarget& target);

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_EAGLE_EAGLE_CONFIG_H_
