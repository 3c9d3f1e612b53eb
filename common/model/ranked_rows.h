#ifndef ESPALIER_COMMON_MODEL_RANKED_ROWS_H_
#define ESPALIER_COMMON_MODEL_RANKED_ROWS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/model/logit_row.h"
#include "common/model/row_reduction.h"
#include "common/nn/kernels.h"

namespace espalier {

// The ranking of every row. Its tokens are those of RankFrom on the whole row;
// its log_sum_exp is that up to the rounding of float32 sums over chunks.
class RankedRows final : public RowReduction {
 public:
  // `threads`: of the pool. Borrows the kernels.
  RankedRows(const RankRequest& request, int64_t rows, int64_t vocab,
             const nn::Kernels& kernels, int64_t threads);

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
  // What a thread knows of a row.
  struct Top {
    std::vector<RankedToken> heap;  // the last by IsAhead in front
    FiniteCheck finite;
  };

  bool IsFull(const Top& top) const;
  void TakeRow(const nn::ProductChunk& chunk, int64_t row);
  void Scan(const nn::ProductChunk& chunk, int64_t row, int64_t panel);

  const RankRequest request_;
  const int64_t rows_;
  const nn::Kernels& kernels_;
  std::vector<Mass> masses_;           // [chunks, rows]
  std::vector<std::vector<Top>> top_;  // by thread, by row
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_RANKED_ROWS_H_
