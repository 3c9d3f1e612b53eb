#ifndef ESPALIER_DRAFTER_DFLASH_DFLASH_CONFIG_H_
#define ESPALIER_DRAFTER_DFLASH_DFLASH_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/model/files/model_config.h"
#include "common/speculation/features.h"
#include "common/speculation/types.h"
#include "drafter/heads/head_target.h"

namespace espalier::drafter {

// A block drafter's config.json, in the fields that z-lab, SpecForge and this
// project's trainer write. Checked, also against the target.
struct DflashConfig {
  // The drafter's own layers; hidden_size and vocab_size are the target's.
  ModelConfig layers;
  int64_t block_size = 0;  // rows of a pass: the root and the masks after it
  TokenId mask_token = 0;
  // A row of the block sees only those before it (JetSpec); else the whole
  // block.
  bool causal = false;
  std::vector<int32_t> taps;     // as in FeatureContract
  int64_t draft_vocab_size = 0;  // of the tokens that it can propose

  FeatureContract features() const {
    return {.taps = taps, .hidden_size = layers.hidden_size};
  }
};

// INVALID_ARGUMENT names the field and its limits, UNIMPLEMENTED an option that
// this engine does not have, NOT_FOUND the file.
absl::StatusOr<DflashConfig> ReadDflashConfig(const std::string& folder,
                                              const HeadTarget& target);

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_DFLASH_DFLASH_CONFIG_H_
