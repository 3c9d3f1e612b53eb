#include "common/model/cuda/cuda_logits.h"

#include "common/cuda/layout.h"
#include "common/cuda/product_shape.h"
#include "common/model/cuda/device_vectors.h"

namespace espalier {

int CudaLogits::splits() const {
  return cuda::ProductSplits(head_.outputs, head_.inputs);
}

absl::Status CudaLogits::Reserve(int rows) {
  if (splits() == 1) return absl::OkStatus();
  return GrowArray(device_,
                   int64_t{splits()} * cuda::PaddedRows(rows) * head_.outputs,
                   parts_);
}

void CudaLogits::Launch(const unsigned char* activations, int rows,
                        float* logits) {
  const bool is_whole = splits() == 1;
  device_.Launch(cuda::ProductArgs{.weights = head_.weights.data(),
                                   .activations = activations,
                                   .rows = rows,
                                   .inputs = head_.inputs,
                                   .outputs = head_.outputs,
                                   .parts = is_whole ? logits : parts_.data()});
  if (is_whole) return;
  device_.Launch(
      cuda::TakeRowsArgs{.parts = {.values = parts_.data(),
                                   .splits = splits(),
                                   .padded_rows = cuda::PaddedRows(rows),
                                   .outputs = head_.outputs},
                         .rows = rows,
                         .columns = head_.outputs,
                         .sums = logits});
}

}  // namespace espalier
