#include "common/model/cuda/cuda_logits.h"

#include "common/cuda/product_shape.h"
#include "common/model/cuda/cuda_product.h"
#include "common/model/cuda/device_vectors.h"

namespace espalier {

int CudaLogits::splits() const {
  return cuda::ProductSplits(head_.outputs, head_.inputs);
}

absl::Status CudaLogits::Reserve(int rows) {
  if (splits() == 1) return absl::OkStatus();
  return GrowArray(device_, PartsSize(head_, rows), parts_);
}

void CudaLogits::Launch(const unsigned char* activations, int rows,
                        float* logits) {
  const bool is_whole = splits() == 1;
  queue_.Launch(
      ProductOf(head_, activations, rows, is_whole ? logits : parts_.data()));
  if (is_whole) return;
  queue_.Launch(cuda::TakeRowsArgs{.parts = PartsOf(head_, rows, parts_.data()),
                                   .rows = rows,
                                   .columns = head_.outputs,
                                   .sums = logits});
}

}  // namespace espalier
