#ifndef ESPALIER_COMMON_MODEL_LOGITS_SAMPLED_ROWS_H_
#define ESPALIER_COMMON_MODEL_LOGITS_SAMPLED_ROWS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/model/logits/logit_row.h"
#include "common/model/logits/row_reduction.h"
#include "common/nn/kernels.h"

namespace espalier {

// The sampled token of every row, the same as DrawFrom's on the whole row, near
// ties included. While the row's largest logit is not known, scores are kept in
// units of logits: logit + temperature * noise. Tokens within a margin of the
// best score so far, wider than all rounding, are kept, and the sample is taken
// from the few that remain at the end.
class SampledRows final : public RowReduction {
 public:
  // `positions`: [rows] of the sampled tokens. Rows of one position share their
  // noise. `threads`: of the pool. `without`: [rows] null, or tokens that
  // cannot be sampled, see DrawFrom. Borrows the kernels.
  SampledRows(const DrawRequest& request, absl::Span<const int64_t> positions,
              const nn::Kernels& kernels, int64_t threads,
              std::shared_ptr<const RowSupports> without = nullptr);

  void Take(const nn::ProductChunk& chunk) override;

  const DrawRequest& request() const { return request_; }
  int64_t position(int64_t row) const { return positions_[row]; }

  // INTERNAL: as CheckFinite. REQUIRES: all chunks were taken.
  absl::StatusOr<SampledToken> Draw(int64_t row) const;
  // Returns the largest of all logits of a row. The same errors.
  absl::StatusOr<float> Largest(int64_t row) const;

 private:
  struct Contender {
    RankedToken token;
    double score = 0;
  };
  // A thread's state of a row.
  struct Race {
    float largest;  // logit
    double best;    // score
    float floor;    // a score below it cannot matter
    std::vector<Contender> contenders;
    FiniteCheck finite;

    Race();
    void Enter(const RankedToken& token, double score, double margin);
  };
  struct Noise;

  void TakeRow(const nn::ProductChunk& chunk, int64_t row, Noise& noise);
  void Scan(const nn::ProductChunk& chunk, int64_t row, int64_t panel,
            const Noise& noise);
  bool IsWithout(int64_t row, TokenId token) const;

  const DrawRequest request_;
  const std::vector<int64_t> positions_;
  const nn::Kernels& kernels_;
  const std::shared_ptr<const RowSupports> without_;
  const double margin_;                   // of scores that could be near ties
  std::vector<int64_t> by_position_;      // rows, those of a position together
  std::vector<std::vector<Race>> races_;  // by thread, by row
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_LOGITS_SAMPLED_ROWS_H_
