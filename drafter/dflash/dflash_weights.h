#ifndef ESPALIER_DRAFTER_DFLASH_DFLASH_WEIGHTS_H_
#define ESPALIER_DRAFTER_DFLASH_DFLASH_WEIGHTS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/model/compute_dtype.h"
#include "common/model/files/weight_files.h"
#include "common/model/native/native_weights.h"
#include "common/nn/huge_page_arena.h"
#include "common/nn/packed_matrix.h"
#include "common/nn/thread_pool.h"
#include "drafter/dflash/dflash_config.h"
#include "drafter/heads/draft_vocabulary.h"
#include "drafter/heads/head_target.h"

namespace espalier::drafter {

// The weights of a block drafter, packed, and the rows that it shares with its
// target. Constant after loading.
struct DflashWeights {
  nn::HugePageArena arena;  // owns what the matrices point to
  NativeLinear fc;          // features -> hidden
  NativeNorm context_norm;  // of fc's rows
  std::vector<NativeLayer> layers;
  NativeNorm final_norm;

  DraftVocabulary vocabulary = DraftVocabulary::Full(0);
  NativeLinear output_rows;     // hidden -> the draft vocabulary
  nn::PackedMatrix embeddings;  // [vocab, hidden]
};

// Loads the tokens that it can propose: published files list none and propose
// any, ours may leave the rare ones out (d2t).
absl::StatusOr<DraftVocabulary> LoadDflashVocabulary(const DflashConfig& config,
                                                     const WeightFiles& files);

// Opens the folder's files, or random weights of a seed for what the
// configuration describes.
absl::StatusOr<WeightFiles> OpenDflash(const std::string& folder,
                                       const DflashConfig& config,
                                       std::optional<uint64_t> random_weights);

// Reads a drafter's files (names may start with "model."). Strict:
// INVALID_ARGUMENT and NOT_FOUND name a tensor that is missing, surplus,
// misshapen or, for d2t, out of range. `dtype`: see LoadNativeWeights.
absl::StatusOr<std::unique_ptr<const DflashWeights>> LoadDflashWeights(
    const WeightFiles& files, const DflashConfig& config,
    const HeadTarget& target, ComputeDType dtype, nn::ThreadPool& pool);

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_DFLASH_DFLASH_WEIGHTS_H_
