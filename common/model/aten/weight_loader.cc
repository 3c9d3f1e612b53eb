#include "common/model/aten/weight_loader.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <cstring>
#include <optional>

#include "common/base/status_macros.h"
#include "common/model/files/tensor_values.h"

namespace espalier {
namespace {

std::optional<at::ScalarType> FloatTypeOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return at::kFloat;
    case DType::kF16:
      return at::kHalf;
    case DType::kBF16:
      return at::kBFloat16;
    default:
      return std::nullopt;
  }
}

}  // namespace

absl::StatusOr<at::Tensor> WeightLoader::Read(
    const std::string& name, const std::vector<int64_t>& shape) const {
  ASSIGN_OR_RETURN(const TensorView view, files_.Find(name, shape));
  ASSIGN_OR_RETURN(const TensorValues values, TensorValues::Of(name, view));
  const at::ScalarType dtype = FloatTypeOf(view.dtype).value_or(at::kFloat);
  if (FloatTypeOf(view.dtype).has_value() && values.in_order()) {
    at::Tensor tensor = at::empty(shape, dtype);
    std::memcpy(tensor.mutable_data_ptr(), view.data.data(), view.data.size());
    return tensor;
  }
  at::Tensor wide = at::empty(shape, at::kFloat);
  for (int64_t row = 0; row < values.rows(); ++row) {
    values.Row(row, wide.mutable_data_ptr<float>() + row * values.columns());
  }
  return wide.to(dtype);
}

at::Tensor WeightLoader::Place(const at::Tensor& tensor, at::ScalarType dtype) {
  at::Tensor placed = tensor.to(dtype).contiguous();
  weight_bytes_ += static_cast<int64_t>(placed.nbytes());
  return placed;
}

absl::StatusOr<at::Tensor> WeightLoader::Vector(const std::string& name,
                                                int64_t size) {
  ASSIGN_OR_RETURN(const TensorView view, files_.Find(name, {size}));
  ASSIGN_OR_RETURN(const TensorValues values, TensorValues::Of(name, view));
  at::Tensor vector = at::empty({size}, at::kFloat);
  values.Row(0, vector.mutable_data_ptr<float>());
  return Place(vector, at::kFloat);
}

absl::StatusOr<at::Tensor> WeightLoader::Table(const std::string& name,
                                               int64_t rows, int64_t columns) {
  ASSIGN_OR_RETURN(const at::Tensor tensor, Read(name, {rows, columns}));
  return Place(tensor, tensor.scalar_type());
}

absl::StatusOr<Linear> WeightLoader::LoadLinear(const std::vector<Part>& parts,
                                                const LinearShape& shape) {
  const at::ScalarType dtype = shape.exact ? at::kFloat : compute_dtype_;
  std::vector<at::Tensor> weights;
  std::vector<at::Tensor> biases;
  for (const auto& [name, out] : parts) {
    const std::vector<int64_t> sizes =
        shape.transposed ? std::vector<int64_t>{shape.in, out}
                         : std::vector<int64_t>{out, shape.in};
    ASSIGN_OR_RETURN(const at::Tensor weight, Read(name + ".weight", sizes));
    weights.push_back((shape.transposed ? weight.t() : weight).to(dtype));
    if (shape.has_bias) {
      ASSIGN_OR_RETURN(const at::Tensor bias, Read(name + ".bias", {out}));
      biases.push_back(bias.to(at::kFloat));
    }
  }
  at::Tensor bias;
  if (shape.has_bias) bias = Place(at::cat(biases), at::kFloat);
  return Linear(Place(at::cat(weights), dtype), bias);
}

absl::StatusOr<Linear> WeightLoader::LoadHead(const ModelConfig& config,
                                              const at::Tensor& embedding) {
  if (config.tied_head) {
    return Linear(Place(embedding, compute_dtype_), /*bias=*/{});
  }
  return LoadLinear({{"lm_head", config.vocab_size}},
                    {.in = config.hidden_size});
}

}  // namespace espalier
