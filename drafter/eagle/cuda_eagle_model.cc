#include "drafter/eagle/cuda_eagle_model.h"

#include <utility>

#include "common/base/status_macros.h"
#include "common/cuda/layout.h"
#include "common/model/cuda/cuda_product.h"
#include "common/model/cuda/device_vectors.h"

namespace espalier::drafter {

using cuda::ActivationBytes;
using cuda::RowBlock;
using cuda::TakeRowsArgs;

absl::Status CudaEagleModel::Prepare(int rows) {
  const auto bytes = [rows](int64_t columns) {
    return static_cast<int64_t>(
        ActivationBytes(rows, static_cast<uint32_t>(columns)));
  };
  const int64_t size = int64_t{rows} * hidden();
  RETURN_IF_ERROR(GrowArray(device(), size, embeddings_));
  RETURN_IF_ERROR(GrowArray(device(), bytes(2 * hidden()), input_));
  if (is_eagle1()) {
    RETURN_IF_ERROR(GrowArray(device(), size, embedding_bits_));
    RETURN_IF_ERROR(GrowArray(device(), bytes(hidden()), joined_));
  } else {
    RETURN_IF_ERROR(
        GrowArray(device(), bytes(head_.config.features().width()), fused_));
  }
  return GrowArray(device(), PartsSize(head_.fc, rows), fc_parts_);
}

void CudaEagleModel::Launch(const CudaPass& pass, const Places& places) {
  const int rows = pass.num_rows();
  device().Launch(
      cuda::EmbedArgs{.table = weights().tokens.weights.data(),
                      .tokens = decoder().tokens(),
                      .rows = rows,
                      .hidden = hidden(),
                      .x = embeddings_.data(),
                      .tap = is_eagle1() ? embedding_bits_.data() : nullptr});
  TakeRowsArgs feature;
  if (places.states == nullptr) {
    feature.from = places.outputs;
    feature.from_rows = places.parents;
  } else if (is_eagle1()) {
    feature.from_bits = places.states;
  } else {
    Fuse(places.states, rows);
    feature.parts = FcParts(rows);
  }
  if (is_eagle1()) {
    EnterEagle1(rows, feature);
  } else {
    EnterEagle3(rows, feature);
  }
  decoder().LaunchLayer(0, is_eagle1() ? joined_.data() : input_.data(), pass,
                        places.target);
  TakeRowsArgs out = decoder().StreamAfter(0, pass);
  out.to_rows = places.to_rows;
  if (head_.config.norm_output) {
    out.weight = weights().final_norm.data();
    out.epsilon = epsilon();
    out.normed = places.outputs;
  } else {
    out.sums = places.outputs;
  }
  device().Launch(out);
}

const float* CudaEagleModel::head_norm() const {
  if (is_eagle1() || head_.config.norm_output) return nullptr;
  return weights().final_norm.data();
}

cuda::Parts CudaEagleModel::FcParts(int rows) const {
  return PartsOf(head_.fc, rows, fc_parts_.data());
}

void CudaEagleModel::MultiplyFc(const unsigned char* activations, int rows) {
  device().Launch(ProductOf(head_.fc, activations, rows, fc_parts_.data()));
}

// One norm for all taps needs them as one row; else each tap is one.
void CudaEagleModel::Fuse(const cuda::bf16_t* states, int rows) {
  const EagleConfig& config = head_.config;
  const auto taps =
      config.norm_before_fc ? 1 : static_cast<int>(config.taps.size());
  const auto width = static_cast<int>(config.features().width());
  TakeRowsArgs take = {.from_bits = states,
                       .rows = rows * taps,
                       .columns = width / taps,
                       .epsilon = epsilon(),
                       .out = fused_.data(),
                       .pieces = taps,
                       .out_block = RowBlock(rows),
                       .out_columns = width};
  if (config.norm_before_fc) take.weight = head_.input_norm.data();
  if (config.fc_norm) take.weight = head_.fc_norms.data();
  device().Launch(take);
  MultiplyFc(fused_.data(), rows);
}

TakeRowsArgs CudaEagleModel::IntoInput(int rows, int first_column) const {
  return {.rows = rows,
          .columns = hidden(),
          .epsilon = epsilon(),
          .out = input_.data(),
          .out_block = RowBlock(rows),
          .out_columns = 2 * hidden(),
          .first_out_column = first_column};
}

// x = fc(embedding | feature), which attention reads as it is.
void CudaEagleModel::EnterEagle1(int rows, TakeRowsArgs feature) {
  TakeRowsArgs embedding = IntoInput(rows, 0);
  embedding.from_bits = embedding_bits_.data();
  device().Launch(embedding);
  TakeRowsArgs second = IntoInput(rows, hidden());
  second.from = feature.from;
  second.from_bits = feature.from_bits;
  second.from_rows = feature.from_rows;
  device().Launch(second);
  MultiplyFc(input_.data(), rows);
  device().Launch(TakeRowsArgs{.parts = FcParts(rows),
                               .rows = rows,
                               .columns = hidden(),
                               .sums = decoder().stream(),
                               .out = joined_.data(),
                               .out_block = RowBlock(rows),
                               .out_columns = hidden()});
}

void CudaEagleModel::EnterEagle3(int rows, TakeRowsArgs feature) {
  TakeRowsArgs embedding = IntoInput(rows, 0);
  embedding.from = embeddings_.data();
  embedding.weight = head_.embedding_norm.data();
  device().Launch(embedding);
  TakeRowsArgs second = IntoInput(rows, hidden());
  second.from = feature.from;
  second.from_rows = feature.from_rows;
  second.parts = feature.parts;
  second.weight = head_.feature_norm.data();
  if (head_.config.norm_before_residual) {
    second.normed = decoder().stream();
  } else {
    second.sums = decoder().stream();
  }
  device().Launch(second);
}

absl::StatusOr<std::unique_ptr<RowModel>> LoadEagleOnGpu(
    const std::string& folder, const HeadTarget& target,
    const HeadRuntime& runtime, std::shared_ptr<cuda::ComputeDevice> device) {
  ASSIGN_OR_RETURN(CudaEagle head,
                   LoadCudaEagle(folder, target, runtime, std::move(device)));
  return std::make_unique<CudaEagleModel>(std::move(head));
}

}  // namespace espalier::drafter
