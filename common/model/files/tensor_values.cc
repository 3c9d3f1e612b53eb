#include "common/model/files/tensor_values.h"

#include <algorithm>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/nn/kernels.h"

namespace espalier {
namespace {

using Format = TensorValues::Format;

std::optional<Format> FormatOf(DType dtype) {
  switch (dtype) {
    case DType::kBF16:
      return Format::kBf16;
    case DType::kF16:
      return Format::kF16;
    case DType::kF32:
      return Format::kFloat32;
    case DType::kQ8_0:
      return Format::kQ8_0;
    case DType::kQ4_0:
      return Format::kQ4_0;
    case DType::kQ4_1:
      return Format::kQ4_1;
    case DType::kQ5_0:
      return Format::kQ5_0;
    case DType::kQ5_1:
      return Format::kQ5_1;
    case DType::kQ4_K:
      return Format::kQ4K;
    case DType::kQ5_K:
      return Format::kQ5K;
    case DType::kQ6_K:
      return Format::kQ6K;
    case DType::kRandom:
      return Format::kRandom;
    default:
      return std::nullopt;
  }
}

}  // namespace

absl::StatusOr<TensorValues> TensorValues::Of(const std::string& name,
                                              const TensorView& view) {
  const std::optional<Format> format = FormatOf(view.dtype);
  if (!format.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor ", name, " has dtype ", DTypeName(view.dtype),
        "; a weight is F32, F16, BF16 or, in GGUF files, of blocks"));
  }
  // The other dimensions would be bounded by no bytes of the file.
  if (std::count(view.shape.begin(), view.shape.end(), 0) > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor ", name, " has a dimension of 0"));
  }
  return TensorValues(view, *format);
}

TensorValues::TensorValues(const TensorView& view, Format format)
    : format_(format),
      seed_(view.seed),
      heads_(view.interleaved_heads),
      offset_(view.offset),
      data_(view.data) {
  for (int64_t size : view.shape) {
    rows_ *= columns_;
    columns_ = size;
  }
}

int64_t TensorValues::PlaceOf(int64_t index, int64_t count) const {
  if (heads_ == 0) return index;
  const int64_t size = count / heads_, in_head = index % size;
  return index - in_head + in_head % (size / 2) * 2 + in_head / (size / 2);
}

absl::Span<const std::byte> TensorValues::Bytes(int64_t row) const {
  ESPALIER_CHECK(0 <= row && row < rows_ && (rows_ > 1 || heads_ == 0));
  ESPALIER_CHECK(format_ != Format::kRandom && offset_ == 0);
  const size_t row_bytes = data_.size() / rows_;
  return data_.subspan(PlaceOf(row, rows_) * row_bytes, row_bytes);
}

std::vector<std::byte> TensorValues::Gather(
    absl::Span<const int32_t> rows) const {
  std::vector<std::byte> gathered;
  if (rows_ > 0) gathered.reserve(rows.size() * (data_.size() / rows_));
  for (int32_t row : rows) {
    const absl::Span<const std::byte> bytes = Bytes(row);
    gathered.insert(gathered.end(), bytes.begin(), bytes.end());
  }
  return gathered;
}

void TensorValues::Row(int64_t row, float* out) const {
  const bool is_vector = rows_ == 1;
  const nn::WeightSource source = {
      .format = format_, .data = data_.data(), .seed = seed_, .outputs = rows_};
  const int64_t place = is_vector ? 0 : PlaceOf(row, rows_);
  for (int64_t begin = 0; begin < columns_; begin += nn::kBlockInputs) {
    float block[nn::kBlockInputs];
    nn::ReadWeights(source, place, columns_, begin / nn::kBlockInputs, block);
    std::copy_n(block, std::min(nn::kBlockInputs, columns_ - begin),
                out + begin);
  }
  if (offset_ != 0) {
    for (int64_t i = 0; i < columns_; ++i) out[i] += offset_;
  }
  if (!is_vector || heads_ == 0) return;
  const std::vector<float> stored(out, out + columns_);
  for (int64_t i = 0; i < columns_; ++i) out[i] = stored[PlaceOf(i, columns_)];
}

}  // namespace espalier
