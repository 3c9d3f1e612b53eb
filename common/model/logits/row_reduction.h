#ifndef ESPALIER_COMMON_MODEL_LOGITS_ROW_REDUCTION_H_
#define ESPALIER_COMMON_MODEL_LOGITS_ROW_REDUCTION_H_

#include <array>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "common/model/logits/logit_row.h"
#include "common/nn/kernels.h"
#include "common/nn/product_chunks.h"

namespace espalier {

// Consumes the logits of some rows, chunk by chunk, while they are in the CPU
// cache. Its result depends bit for bit on the rows alone, not on the order of
// the chunks or on which thread took which.
class RowReduction {
 public:
  virtual ~RowReduction() = default;

  // Called once per chunk, by several threads concurrently. Row 0 of the chunk
  // is the reduction's first.
  virtual void Take(const nn::ProductChunk& chunk) = 0;
};

// Says where in a row's chunk something may be found.
struct RowPeaks {
  int64_t panels = 0;
  std::array<float, nn::kChunkPanels> of_panel = {};  // [panels]
  float largest = 0;
};

// None if a logit is not finite.
std::optional<RowPeaks> FindPeaks(const nn::ProductChunk& chunk, int64_t row,
                                  const nn::Kernels& kernels);

// The first logit of a row that is not finite, from chunks in any order.
class FiniteCheck {
 public:
  // Finds it in a chunk of the row. REQUIRES: one is there.
  void Fail(const nn::ProductChunk& chunk, int64_t row);
  void Merge(const FiniteCheck& other);

  // Returns the result of CheckFinite over the whole row.
  absl::Status status() const;

 private:
  std::optional<RankedToken> first_;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_LOGITS_ROW_REDUCTION_H_
