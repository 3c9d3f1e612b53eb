#ifndef ESPALIER_COMMON_MODEL_LOGITS_GATHERED_ROWS_H_
#define ESPALIER_COMMON_MODEL_LOGITS_GATHERED_ROWS_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/model/logits/logit_row.h"
#include "common/model/logits/row_reduction.h"
#include "common/model/logits/sampled_rows.h"
#include "common/nn/kernels.h"

namespace espalier {

// Answers a GatherRequest for its rows. Log-weights and sampled tokens equal
// those of GatherFrom and SampleOutsideFrom on the whole rows; the weight
// outside equals GatherFrom's up to the rounding of float32 sums over chunks.
// It is summed over the tokens outside, so it is as exact where the support has
// nearly all mass.
class GatheredRows final : public RowReduction {
 public:
  // `threads`: of the pool. Borrows the kernels.
  GatheredRows(const GatherRequest& request, int64_t vocab,
               const nn::Kernels& kernels, int64_t threads);

  void Take(const nn::ProductChunk& chunk) override;

  const GatherRequest& request() const { return request_; }

  // INTERNAL: as CheckFinite. REQUIRES: all chunks were taken.
  absl::StatusOr<GatheredRow> Gather(int64_t row) const;
  // REQUIRES: the row's weight outside is above 0.
  absl::StatusOr<SampledToken> SampleOutside(int64_t row) const {
    return sampled_.Draw(row);
  }

 private:
  // Sum of e^((logit - largest) / temperature) over a chunk's tokens outside.
  struct Mass {
    float largest = -std::numeric_limits<float>::infinity();
    float sum = 0;
  };

  void TakeRow(const nn::ProductChunk& chunk, int64_t row);

  const GatherRequest request_;
  const nn::Kernels& kernels_;
  SampledRows sampled_;
  std::vector<float> inside_;  // logits, in columns over all supports
  std::vector<Mass> masses_;   // [chunks, rows]
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_LOGITS_GATHERED_ROWS_H_
