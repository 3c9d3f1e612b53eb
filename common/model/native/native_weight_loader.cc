#include "common/model/native/native_weight_loader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/bf16.h"
#include "common/base/status_macros.h"

namespace espalier {
namespace {

using Format = nn::WeightSource::Format;

absl::StatusOr<Format> FormatOf(const std::string& name, DType dtype) {
  switch (dtype) {
    case DType::kBF16:
      return Format::kBf16;
    case DType::kF16:
      return Format::kF16;
    case DType::kF32:
      return Format::kFloat32;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", name, " has dtype ", DTypeName(dtype),
                       "; a weight is F32, F16 or BF16"));
  }
}

// `bf16`: what the file has.
nn::WeightType TypeOf(ComputeDType dtype, bool bf16) {
  switch (dtype) {
    case ComputeDType::kInt8:
    case ComputeDType::kInt4:
      return nn::WeightType::kBlocks;
    case ComputeDType::kBFloat16:
      return nn::WeightType::kBf16;
    case ComputeDType::kFloat32:
      break;
  }
  return bf16 ? nn::WeightType::kBf16 : nn::WeightType::kFloat32;
}

nn::BlockFormat BlockFormatOf(ComputeDType dtype, bool vocabulary) {
  if (dtype == ComputeDType::kInt4 && !vocabulary) {
    return {.bits = 4, .minimums = true};
  }
  return {};
}

float Element(const TensorView& view, Format format, int64_t index) {
  if (format == Format::kFloat32) {
    float value;
    std::memcpy(&value, view.data.data() + index * 4, 4);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, view.data.data() + index * 2, 2);
  return format == Format::kBf16 ? Bf16ToFloat(bits) : F16ToFloat(bits);
}

}  // namespace

absl::StatusOr<std::vector<float>> NativeWeightLoader::Vector(
    const std::string& name, int64_t size) {
  ASSIGN_OR_RETURN(const TensorView view, Find(name, {size}));
  ASSIGN_OR_RETURN(const Format format, FormatOf(name, view.dtype));
  std::vector<float> values(size);
  for (int64_t i = 0; i < size; ++i) values[i] = Element(view, format, i);
  bytes_ += size * static_cast<int64_t>(sizeof(float));
  return values;
}

absl::StatusOr<nn::PackedMatrix> NativeWeightLoader::Table(
    const std::string& name, const TableShape& shape) {
  ASSIGN_OR_RETURN(TensorView view, Find(name, {shape.rows, shape.columns}));
  return Pack({std::move(view)}, {{name, shape.rows}},
              {.inputs = shape.columns, .vocabulary = true});
}

absl::StatusOr<NativeLinear> NativeWeightLoader::Rows(
    const std::string& name, absl::Span<const TokenId> rows,
    const TableShape& shape) {
  ASSIGN_OR_RETURN(TensorView view, Find(name, {shape.rows, shape.columns}));
  const int64_t bytes = shape.columns * ElementBytes(view.dtype);
  std::vector<std::byte> gathered;
  gathered.reserve(rows.size() * bytes);
  for (TokenId row : rows) {
    const absl::Span<const std::byte> source =
        view.data.subspan(row * bytes, bytes);
    gathered.insert(gathered.end(), source.begin(), source.end());
  }
  view.data = gathered;
  NativeLinear linear;
  ASSIGN_OR_RETURN(
      linear.matrix,
      Pack({std::move(view)}, {{name, static_cast<int64_t>(rows.size())}},
           {.inputs = shape.columns, .vocabulary = true, .in_memory = true}));
  return linear;
}

absl::Status NativeWeightLoader::CheckAllRead() const {
  for (const auto& [name, tensor] : files_.tensors()) {
    if (read_.count(name) == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", name, " is not part of the layout"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<TensorView> NativeWeightLoader::Find(
    const std::string& name, const std::vector<int64_t>& shape) {
  read_.insert(name);
  return files_.Find(name, shape);
}

absl::StatusOr<NativeLinear> NativeWeightLoader::Linear(
    const std::vector<Part>& parts, const LinearShape& shape) {
  std::vector<TensorView> views;
  std::vector<std::vector<float>> biases;
  for (const auto& [name, outputs] : parts) {
    const std::vector<int64_t> sizes =
        shape.transposed ? std::vector<int64_t>{shape.inputs, outputs}
                         : std::vector<int64_t>{outputs, shape.inputs};
    ASSIGN_OR_RETURN(TensorView view, Find(name + ".weight", sizes));
    views.push_back(std::move(view));
    if (shape.has_bias) {
      ASSIGN_OR_RETURN(std::vector<float> bias,
                       Vector(name + ".bias", outputs));
      biases.push_back(std::move(bias));
    }
  }
  NativeLinear linear;
  ASSIGN_OR_RETURN(linear.matrix, Pack(views, parts, shape));
  if (shape.has_bias) linear.bias = nn::PackBias(biases, shape.gated);
  return linear;
}

absl::StatusOr<nn::PackedMatrix> NativeWeightLoader::Pack(
    const std::vector<TensorView>& views, const std::vector<Part>& parts,
    const LinearShape& shape) {
  std::vector<nn::WeightSource> sources;
  bool bf16 = true;
  for (size_t i = 0; i < views.size(); ++i) {
    ASSIGN_OR_RETURN(const Format format,
                     FormatOf(parts[i].name, views[i].dtype));
    bf16 = bf16 && format == Format::kBf16;
    sources.push_back({.format = format,
                       .data = views[i].data.data(),
                       .outputs = parts[i].outputs,
                       .transposed = shape.transposed,
                       .release = shape.in_memory ? nullptr : DropPages});
  }
  const nn::PackedMatrix packed = nn::PackedMatrix::Pack(
      sources,
      {.inputs = shape.inputs,
       .type = TypeOf(target_.dtype, bf16),
       .format = BlockFormatOf(target_.dtype, shape.vocabulary),
       .gated = shape.gated},
      target_.arena, target_.pool);
  bytes_ += packed.bytes();
  return packed;
}

}  // namespace espalier
