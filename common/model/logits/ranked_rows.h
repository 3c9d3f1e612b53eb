#ifndef ESPALIER_COMMON_MODEL_LOGITS_RANKED_ROWS_H_
#define ESPALIER_COMMON_MODEL_LOGITS_RANKED_ROWS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/model/logits/logit_row.h"
#include "common/model/logits/row_reduction.h"
#include "common/nn/kernels.h"
#include "common/speculation/gumbel_noise.h"

namespace espalier {

// Gumbel noise that is added to a row's logits before they are compared: the
// ranking of the coupled walk. Spans must outlive the RankedRows.
struct RowNoise {
  GumbelNoise noise;
  float temperature = 0;  // factor of the noise; 0: none
  // [vocab] upper bounds of the noise (NoiseArgs)
  absl::Span<const float> ceilings = {};
  // [vocab] the token whose noise a column takes
  absl::Span<const TokenId> tokens = {};
};

// The ranking of every row. Its tokens are those of RankFrom on the whole row;
// its log_sum_exp equals RankFrom's up to the rounding of float32 sums over
// chunks.
class RankedRows final : public RowReduction {
 public:
  // `threads`: of the pool. `noise`: of each row, or empty: none. With noise
  // the ranking is that of logit + temperature * noise; the logits in it are
  // still the plain ones. Borrows the kernels.
  RankedRows(const RankRequest& request, int64_t rows, int64_t vocab,
             const nn::Kernels& kernels, int64_t threads,
             absl::Span<const RowNoise> noise = {});

  void Take(const nn::ProductChunk& chunk) override;

  const RankRequest& request() const { return request_; }

  // INTERNAL: as CheckFinite. REQUIRES: all chunks were taken.
  absl::StatusOr<Ranking> Rank(int64_t row) const;

 private:
  // Sum of e^(logit - largest) over a chunk.
  struct Mass {
    float largest = 0;
    float sum = 0;
  };
  struct Entry {
    RankedToken token;
    double score = 0;  // what is compared
  };
  static bool Precedes(const Entry& a, const Entry& b);
  // A thread's state of a row.
  struct Top {
    std::vector<Entry> heap;  // the last by Precedes in front
    FiniteCheck finite;
  };

  bool IsFull(const Top& top) const;
  bool IsNoisy(int64_t row) const;
  // An upper bound of the best score of every panel of the chunk.
  void Bound(const nn::ProductChunk& chunk, int64_t row, float* panels) const;
  // Returns an upper bound of the score, or the score itself.
  double Ceiling(int64_t row, const RankedToken& token) const;
  double Score(int64_t row, const RankedToken& token) const;
  void TakeRow(const nn::ProductChunk& chunk, int64_t row);
  void Scan(const nn::ProductChunk& chunk, int64_t row, int64_t panel);

  const RankRequest request_;
  const int64_t rows_;
  const std::vector<RowNoise> noise_;  // by row, or empty
  const nn::Kernels& kernels_;
  std::vector<Mass> masses_;           // [chunks, rows]
  std::vector<std::vector<Top>> top_;  // by thread, by row
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_LOGITS_RANKED_ROWS_H_
