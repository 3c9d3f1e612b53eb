#ifndef ESPALIER_COMMON_MODEL_FILES_TENSOR_VALUES_H_
#define ESPALIER_COMMON_MODEL_FILES_TENSOR_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/model/files/tensor_view.h"
#include "common/nn/weight_source.h"

namespace espalier {

// The weights of a tensor, by the rows of the model, wherever the file has them
// (TensorView::interleaved_heads) and whatever it adds to them
// (TensorView::offset), or of none. A vector is one row. Borrows the
// file.
class TensorValues {
 public:
  using Format = nn::WeightSource::Format;

  // INVALID_ARGUMENT names the tensor: it is empty, or holds no weights but,
  // say, integers.
  static absl::StatusOr<TensorValues> Of(const std::string& name,
                                         const TensorView& view);

  Format format() const { return format_; }
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  // The rows are in the file one after another.
  bool in_order() const { return heads_ == 0; }

  // Widened: [columns].
  void Row(int64_t row, float* out) const;

  // Returns a row in `format`. REQUIRES: not an interleaved vector, not
  // kRandom, no offset.
  absl::Span<const std::byte> Bytes(int64_t row) const;

  // These rows in `format`, copied one after another. REQUIRES: as above.
  std::vector<std::byte> Gather(absl::Span<const int32_t> rows) const;

 private:
  TensorValues(const TensorView& view, Format format);

  // Returns where the file has the index-th of `count` rows, or elements of a
  // vector.
  int64_t PlaceOf(int64_t index, int64_t count) const;

  Format format_;
  uint64_t seed_ = 0;
  int64_t rows_ = 1;
  int64_t columns_ = 1;
  int64_t heads_ = 0;
  float offset_ = 0;
  absl::Span<const std::byte> data_;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_FILES_TENSOR_VALUES_H_
