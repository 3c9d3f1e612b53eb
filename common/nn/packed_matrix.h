#ifndef ESPALIER_COMMON_NN_PACKED_MATRIX_H_
#define ESPALIER_COMMON_NN_PACKED_MATRIX_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/nn/huge_page_arena.h"
#include "common/nn/kernels.h"
#include "common/nn/thread_pool.h"
#include "common/nn/weight_source.h"

namespace espalier::nn {

// The weight of a product y = W x in the one layout that all kernels read, see
// WeightType. A row of W is an output of the product. Constant; the memory
// belongs to the arena.
class PackedMatrix {
 public:
  struct Spec {
    int64_t inputs = 0;
    WeightType type = WeightType::kBf16;
    BlockFormat format;  // of kBlocks
    // There are two parts, gates and values of the same size. Their rows are
    // mixed in groups of kGatedOutputs, so that both sides of a product meet in
    // one register tile.
    bool gated = false;
  };

  // Parts follow each other, or are mixed if gated. Values are rounded to
  // `type`; blocks that the wanted format has room for are taken as they are
  // (CommonFormat of all parts, see Widen). REQUIRES: gated means two parts
  // with equally many outputs; a transposed part is of floats.
  static PackedMatrix Pack(absl::Span<const WeightSource> parts,
                           const Spec& spec, HugePageArena& arena,
                           ThreadPool& pool);

  int64_t inputs() const { return view_.inputs; }
  int64_t panels() const { return panels_; }
  int64_t bytes() const { return panels_ * view_.panel_bytes; }
  // Columns of the product's result: half of the rows if gated.
  int64_t out_columns() const { return out_columns_; }
  bool gated() const { return gated_; }
  // Returns true if the parts had other weights than the blocks (kBlocks) stand
  // for.
  bool rounded() const { return rounded_; }
  const PanelView& view() const { return view_; }

  // Row `output` of W, widened: an embedding. REQUIRES: not gated.
  void Row(int64_t output, float* out) const;

 private:
  PanelView view_;
  int64_t panels_ = 0;
  int64_t out_columns_ = 0;
  bool gated_ = false;
  bool rounded_ = false;
};

// Packs a bias the way that the rows of its product are packed: returns
// [panels * kPanelOutputs] with zeros in the gaps.
std::vector<float> PackBias(absl::Span<const std::vector<float>> parts,
                            bool gated);

}  // namespace espalier::nn

#endif  // ESPALIER_COMMON_NN_PACKED_MATRIX_H_
