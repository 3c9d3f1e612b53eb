#ifndef ESPALIER_DRAFTER_HEADS_HEAD_TARGET_H_
#define ESPALIER_DRAFTER_HEADS_HEAD_TARGET_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/json/json_fields.h"
#include "common/model/files/model_config.h"
#include "common/model/files/weight_files.h"
#include "drafter/engine/drafter_factories.h"

namespace espalier::drafter {

// Holds what a draft head takes from its target: sizes, and the embedding and
// output rows that its own file leaves out.
struct HeadTarget {
  ModelConfig config;
  WeightFiles files;
  uint64_t tokenizer_fingerprint = 0;  // 0: not known

  const char* embedding() const { return "model.embed_tokens.weight"; }
  const char* output_rows() const {
    return config.tied_head ? embedding() : "lm_head.weight";
  }
};

// random_weights: a seed, see HeadRuntime. Errors name the file.
absl::StatusOr<HeadTarget> OpenHeadTarget(
    const DrafterOptions& options,
    std::optional<uint64_t> random_weights = std::nullopt);

// Compares a head's config.json with the target: the size of the vocabulary,
// and, in files of this project, espalier.tokenizer_fingerprint. `fields` keeps
// mismatches as errors.
void CheckMadeFor(const HeadTarget& target, int64_t vocab_size,
                  JsonFields& fields);

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_HEADS_HEAD_TARGET_H_
