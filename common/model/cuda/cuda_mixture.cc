#include "common/model/cuda/cuda_mixture.h"

#include "common/base/status_macros.h"
#include "common/cuda/product_shape.h"
#include "common/model/cuda/cuda_product.h"
#include "common/model/cuda/device_vectors.h"

namespace espalier {
namespace {

// How the rows of a pass are divided among experts.
struct Places {
  int choices, block, items;

  Places(const ExpertsShape& shape, int rows) {
    const auto count = static_cast<int>(shape.count);
    const auto per_row = static_cast<int>(shape.per_row);
    choices = rows * per_row;
    block = cuda::ExpertBlock(rows, per_row, count);
    items = cuda::ExpertItems(choices, count, block);
  }
  int64_t count() const { return int64_t{items} * block; }
};

}  // namespace

absl::Status CudaMixture::Reserve(int rows) {
  const int64_t hidden = config_.hidden_size;
  for (const LayerShape& layer : config_.layers) {
    if (layer.is_dense()) continue;
    const Places places(layer.experts, rows);
    constexpr int64_t kNumberBytes = 2;
    const int64_t place_bytes = places.count() * kNumberBytes;
    RETURN_IF_ERROR(GrowArray(device_, rows * hidden, router_input_));
    RETURN_IF_ERROR(GrowArray(device_, places.choices, choices_));
    RETURN_IF_ERROR(GrowArray(device_, places.items, items_));
    RETURN_IF_ERROR(GrowArray(device_, place_bytes * hidden, placed_));
    RETURN_IF_ERROR(
        GrowArray(device_, place_bytes * layer.experts.ffn_size, gated_));
    RETURN_IF_ERROR(GrowArray(device_, places.count() * hidden, sums_));
  }
  return absl::OkStatus();
}

void CudaMixture::Launch(const LayerShape& layer, const CudaExperts& experts,
                         const unsigned char* input, int rows) {
  const Places places(layer.experts, rows);
  Route(layer, experts, rows);
  queue_.Launch(
      cuda::PlaceRowsArgs{.activations = input,
                          .rows = rows,
                          .columns = static_cast<int>(config_.hidden_size),
                          .choices = choices_.data(),
                          .per_row = static_cast<int>(layer.experts.per_row),
                          .out = placed_.data(),
                          .out_block = places.block});
  Multiply(layer, experts, rows);
}

void CudaMixture::Route(const LayerShape& layer, const CudaExperts& experts,
                        int rows) {
  const Places places(layer.experts, rows);
  queue_.Launch(
      cuda::RouteArgs{.x = router_input_.data(),
                      .router = experts.router.data(),
                      .rows = rows,
                      .hidden = static_cast<int>(config_.hidden_size),
                      .experts = static_cast<int>(layer.experts.count),
                      .per_row = static_cast<int>(layer.experts.per_row),
                      .weights_sum_to_one = layer.experts.weights_sum_to_one,
                      .choices = choices_.data()});
  queue_.Launch(
      cuda::GroupRowsArgs{.choices = choices_.data(),
                          .num_choices = places.choices,
                          .experts = static_cast<int>(layer.experts.count),
                          .block = places.block,
                          .items = items_.data(),
                          .num_items = places.items});
}

void CudaMixture::Multiply(const LayerShape& layer, const CudaExperts& experts,
                           int rows) {
  const Places places(layer.experts, rows);
  const auto count = static_cast<int>(layer.experts.count);
  const auto of_experts = [&](const CudaLinear& linear,
                              const unsigned char* activations) {
    cuda::ExpertProductArgs args = {
        .product =
            ProductOf(linear, activations, /*rows=*/0, /*parts=*/nullptr),
        .expert_bytes = linear.weights.size() / count,
        .items = items_.data(),
        .num_items = places.items,
        .block = places.block};
    args.product.outputs = linear.outputs / count;
    args.product.undivided = true;
    args.product.weights_leave_cache = false;  // items may share an expert's
    return args;
  };
  cuda::ExpertProductArgs gate_up = of_experts(experts.gate_up, placed_.data());
  gate_up.product.gated = gated_.data();
  gate_up.product.gate = GateOf(layer);
  queue_.Launch(gate_up);
  cuda::ExpertProductArgs down = of_experts(experts.down, gated_.data());
  down.product.parts = sums_.data();
  queue_.Launch(down);
}

cuda::Parts CudaMixture::output(const LayerShape& layer, int rows) const {
  return {.values = sums_.data(),
          .splits = 1,
          .padded_rows = static_cast<int>(Places(layer.experts, rows).count()),
          .outputs = static_cast<int>(config_.hidden_size),
          .choices = choices_.data(),
          .per_row = static_cast<int>(layer.experts.per_row)};
}

}  // namespace espalier
