#include "common/model/aten/linear.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/linear.h>

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace espalier {
namespace {

constexpr int64_t kMaxBlock = 48;

int64_t BlockFor(int64_t rows) {
  int64_t block = 6;  // rows of oneDNN's AVX2 register tile
  while (block < rows) block *= 2;
  return block;
}

// libtorch has oneDNN's packed products as dispatcher operators only.
at::Tensor Pack(const at::Tensor& weight) {
  static const auto pack =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("mkldnn::_reorder_linear_weight", "")
          .typed<at::Tensor(const at::Tensor&, std::optional<c10::SymInt>)>();
  return pack.call(weight, c10::SymInt(kMaxBlock));
}

at::Tensor PackedProduct(const at::Tensor& x, const at::Tensor& weight,
                         const at::Tensor& bias) {
  static const auto product =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("mkldnn::_linear_pointwise", "")
          .typed<at::Tensor(const at::Tensor&, const at::Tensor&,
                            const std::optional<at::Tensor>&, std::string_view,
                            c10::List<std::optional<at::Scalar>>,
                            std::optional<std::string_view>)>();
  const std::optional<at::Tensor> maybe_bias =
      bias.defined() ? std::optional(bias) : std::nullopt;
  return product.call(x, weight, maybe_bias, /*attr=*/"none", /*scalars=*/
                      c10::List<std::optional<at::Scalar>>(), /*algorithm=*/"");
}

}  // namespace

Linear::Linear(at::Tensor weight, at::Tensor bias)
    : packed_(weight.scalar_type() == at::kFloat),
      weight_(packed_ ? Pack(weight) : std::move(weight)),
      bias_(std::move(bias)) {}

at::Tensor Linear::operator()(const at::Tensor& x) const {
  if (!packed_) {
    const at::Tensor y =
        at::linear(x.to(weight_.scalar_type()), weight_).to(at::kFloat);
    return bias_.defined() ? y + bias_ : y;
  }
  if (x.size(0) <= kMaxBlock) return PackedBlock(x);
  std::vector<at::Tensor> blocks;
  for (const at::Tensor& block : x.split(kMaxBlock)) {
    blocks.push_back(PackedBlock(block));
  }
  return at::cat(blocks);
}

at::Tensor Linear::PackedBlock(const at::Tensor& x) const {
  const int64_t rows = x.size(0);
  const int64_t missing = BlockFor(rows) - rows;
  if (missing == 0) return PackedProduct(x.contiguous(), weight_, bias_);
  const at::Tensor padded = at::constant_pad_nd(x, {0, 0, 0, missing});
  return PackedProduct(padded, weight_, bias_).narrow(/*dim=*/0, 0, rows);
}

}  // namespace espalier
