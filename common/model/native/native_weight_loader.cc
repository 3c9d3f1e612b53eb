#include "common/model/native/native_weight_loader.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/model/files/mapped_file.h"
#include "common/model/files/tensor_values.h"

namespace espalier {
namespace {

using Format = nn::WeightSource::Format;

// `bf16`: the file has it, or bf16 holds the weights exactly.
nn::WeightType TypeOf(ComputeDType dtype, bool bf16) {
  switch (dtype) {
    case ComputeDType::kInt8:
    case ComputeDType::kInt4:
      return nn::WeightType::kBlocks;
    case ComputeDType::kBFloat16:
      return nn::WeightType::kBf16;
    case ComputeDType::kFloat32:
    case ComputeDType::kFp8:  // not of this backend
      break;
  }
  return bf16 ? nn::WeightType::kBf16 : nn::WeightType::kFloat32;
}

bool IsBlocksOfFile(const nn::WeightSource& source) {
  return nn::UnitInputs(source.format) > 1 && source.format != Format::kRandom;
}

// Returns the narrowest format that has room for the blocks of all parts;
// nullopt: some part is not of blocks.
std::optional<nn::BlockFormat> FormatOfFile(
    absl::Span<const nn::WeightSource> parts) {
  std::optional<nn::BlockFormat> format;
  for (const nn::WeightSource& part : parts) {
    if (!IsBlocksOfFile(part)) return std::nullopt;
    const nn::BlockFormat own = nn::BlockFormatOf(part.format);
    format = format.has_value() ? nn::CommonFormat(*format, own) : own;
  }
  return format;
}

// Blocks of the file are taken as they are, unless they have more bits than are
// asked for.
nn::BlockFormat BlockFormatOf(ComputeDType dtype, bool vocabulary,
                              absl::Span<const nn::WeightSource> parts) {
  const bool wants_four = dtype == ComputeDType::kInt4 && !vocabulary;
  const std::optional<nn::BlockFormat> of_file = FormatOfFile(parts);
  if (of_file.has_value() && (!wants_four || of_file->bits == 4)) {
    return *of_file;
  }
  if (wants_four) return {.bits = 4, .minimums = true};
  return {};
}

}  // namespace

absl::StatusOr<std::vector<float>> NativeWeightLoader::Vector(
    const std::string& name, int64_t size) {
  ASSIGN_OR_RETURN(const TensorView view, Find(name, {size}));
  ASSIGN_OR_RETURN(const TensorValues tensor, TensorValues::Of(name, view));
  std::vector<float> values(size);
  tensor.Row(0, values.data());
  bytes_ += size * static_cast<int64_t>(sizeof(float));
  return values;
}

absl::StatusOr<nn::PackedMatrix> NativeWeightLoader::Table(
    const std::string& name, const TableShape& shape) {
  ASSIGN_OR_RETURN(const Source source,
                   Open({name, shape.rows}, {.inputs = shape.columns}));
  return Pack({source.weights}, {.inputs = shape.columns, .vocabulary = true});
}

absl::StatusOr<NativeLinear> NativeWeightLoader::Rows(
    const std::string& name, absl::Span<const TokenId> rows,
    const TableShape& shape) {
  ASSIGN_OR_RETURN(const TensorView view,
                   Find(name, {shape.rows, shape.columns}));
  ASSIGN_OR_RETURN(const TensorValues values, TensorValues::Of(name, view));
  const std::vector<std::byte> gathered = values.Gather(rows);
  const nn::WeightSource source = {.format = values.format(),
                                   .data = gathered.data(),
                                   .outputs = std::ssize(rows)};
  return NativeLinear{.matrix = Pack({source}, {.inputs = shape.columns})};
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

absl::StatusOr<NativeWeightLoader::Source> NativeWeightLoader::Open(
    const Part& part, const LinearShape& shape) {
  const std::vector<int64_t> sizes =
      shape.transposed ? std::vector<int64_t>{shape.inputs, part.outputs}
                       : std::vector<int64_t>{part.outputs, shape.inputs};
  ASSIGN_OR_RETURN(const TensorView view, Find(part.name, sizes));
  ASSIGN_OR_RETURN(const TensorValues values,
                   TensorValues::Of(part.name, view));
  Source source = {.weights = {.format = values.format(),
                               .data = view.data.data(),
                               .seed = view.seed,
                               .outputs = part.outputs,
                               .transposed = shape.transposed}};
  if (values.format() == Format::kRandom) return source;
  source.weights.release = DropPages;
  if (values.in_order()) return source;
  std::vector<int32_t> rows(part.outputs);
  std::iota(rows.begin(), rows.end(), 0);
  source.copy = values.Gather(rows);
  source.weights.data = source.copy.data();
  source.weights.release = nullptr;
  DropPages(view.data);
  return source;
}

absl::StatusOr<NativeLinear> NativeWeightLoader::Linear(
    const std::vector<Part>& parts, const LinearShape& shape) {
  std::vector<Source> sources;
  std::vector<nn::WeightSource> weights;
  std::vector<std::vector<float>> biases;
  for (const auto& [name, outputs] : parts) {
    ASSIGN_OR_RETURN(Source source, Open({name + ".weight", outputs}, shape));
    weights.push_back(source.weights);
    sources.push_back(std::move(source));
    if (shape.has_bias) {
      ASSIGN_OR_RETURN(std::vector<float> bias,
                       Vector(name + ".bias", outputs));
      biases.push_back(std::move(bias));
    }
  }
  NativeLinear linear = {.matrix = Pack(weights, shape)};
  if (shape.has_bias) linear.bias = nn::PackBias(biases, shape.gated);
  return linear;
}

nn::PackedMatrix NativeWeightLoader::Pack(
    const std::vector<nn::WeightSource>& parts, const LinearShape& shape) {
  const bool bf16 =
      std::all_of(parts.begin(), parts.end(), [](const auto& part) {
        return part.format == Format::kBf16 || part.format == Format::kRandom;
      });
  const nn::PackedMatrix packed = nn::PackedMatrix::Pack(
      parts,
      {.inputs = shape.inputs,
       .type =
           shape.exact ? nn::WeightType::kFloat32 : TypeOf(target_.dtype, bf16),
       .format = BlockFormatOf(target_.dtype, shape.vocabulary, parts),
       .gated = shape.gated},
      target_.arena, target_.pool);
  bytes_ += packed.bytes();
  return packed;
}

}  // namespace espalier
