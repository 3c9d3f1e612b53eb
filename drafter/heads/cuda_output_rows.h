#ifndef ESPALIER_DRAFTER_HEADS_CUDA_OUTPUT_ROWS_H_
#define ESPALIER_DRAFTER_HEADS_CUDA_OUTPUT_ROWS_H_

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/status_macros.h"
#include "common/cuda/device_array.h"

namespace espalier::drafter {

// Outputs of rows of all sequences, in one array of the device. One thread.
class CudaOutputRows {
 public:
  // `device` must outlive this object.
  CudaOutputRows(int64_t columns, cuda::ComputeDevice& device)
      : columns_(columns), device_(device) {}

  float* data() const { return rows_.data(); }  // [rows, columns]

  // Takes a row that is free. The array moves if it is too small: what is held
  // moves along. RESOURCE_EXHAUSTED: no room on the device.
  absl::StatusOr<int32_t> Take() {
    if (free_.empty()) RETURN_IF_ERROR(Grow());
    const int32_t row = free_.back();
    free_.pop_back();
    return row;
  }
  void Return(int32_t row) { free_.push_back(row); }

 private:
  absl::Status Grow() {
    constexpr int64_t kMin = 256;
    const int64_t old_rows = rows_.size() / columns_;
    const int64_t new_rows = std::max(kMin, 2 * old_rows);
    ASSIGN_OR_RETURN(auto larger, cuda::DeviceArray<float>::Make(
                                      device_, new_rows * columns_));
    device_.Copy(larger.data(), rows_.data(),
                 rows_.size() * static_cast<int64_t>(sizeof(float)));
    rows_ = std::move(larger);
    for (int64_t row = new_rows - 1; row >= old_rows; --row) {
      free_.push_back(static_cast<int32_t>(row));
    }
    return absl::OkStatus();
  }

  const int64_t columns_;
  cuda::ComputeDevice& device_;
  cuda::DeviceArray<float> rows_;
  std::vector<int32_t> free_;
};

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_HEADS_CUDA_OUTPUT_ROWS_H_
