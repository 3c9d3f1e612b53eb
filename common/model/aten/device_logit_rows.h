// Internal to common/model: includes ATen.
#ifndef ESPALIER_COMMON_MODEL_ATEN_DEVICE_LOGIT_ROWS_H_
#define ESPALIER_COMMON_MODEL_ATEN_DEVICE_LOGIT_ROWS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/model/language_model.h"

namespace espalier {

// Rows on a device; each is copied to the host when it is first read. Gather is
// computed on the device, for all rows of a request at once: only the supports'
// logits leave the device, and the row that SampleOutside samples from.
class DeviceLogitRows final : public LogitRows {
 public:
  explicit DeviceLogitRows(at::Tensor logits);  // [rows, vocab] float32

  int64_t num_rows() const override { return logits_.size(0); }
  absl::Span<const float> Row(int64_t row) const override;
  absl::StatusOr<GatheredRow> Gather(int64_t row, const GatherRequest& request,
                                     int64_t index) const override;

 private:
  struct Gathered {
    GatherRequest request;
    std::vector<std::optional<GatheredRow>> rows = {};  // none: not finite
  };
  absl::StatusOr<Gathered> GatherAll(int64_t first_row,
                                     const GatherRequest& request) const;

  const at::Tensor logits_;
  mutable std::vector<at::Tensor> rows_;  // on the CPU: views of logits_
  mutable std::map<int64_t, Gathered> gathered_;  // by their first row
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_ATEN_DEVICE_LOGIT_ROWS_H_
