#include "common/model/aten/device_logit_rows.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <cmath>
#include <limits>
#include <utility>

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/model/aten/catch_torch.h"
#include "common/spec/noisy_argmax.h"

namespace espalier {
namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();

// Indices of the supports' logits in the flattened rows.
at::Tensor PlacesOf(const RowSupports& supports, int64_t vocab,
                    const at::Device& device) {
  std::vector<int64_t> places;
  places.reserve(supports.tokens.size());
  for (int64_t row = 0; row < supports.rows(); ++row) {
    for (TokenId token : supports.Of(row)) {
      places.push_back(row * vocab + token);
    }
  }
  return at::tensor(places, at::dtype(at::kLong)).to(device);
}

}  // namespace

DeviceLogitRows::DeviceLogitRows(at::Tensor logits)
    : logits_(logits.contiguous()), rows_(logits.size(0)) {}

absl::Span<const float> DeviceLogitRows::Row(int64_t row) const {
  ESPALIER_CHECK(0 <= row && row < num_rows());
  if (!rows_[row].defined()) {
    rows_[row] = logits_.select(/*dim=*/0, row).to(at::kCPU);  // sync
  }
  return {rows_[row].const_data_ptr<float>(),
          static_cast<size_t>(logits_.size(1))};
}

absl::StatusOr<GatheredRow> DeviceLogitRows::Gather(
    int64_t row, const GatherRequest& request, int64_t index) const {
  const int64_t first_row = row - index;
  auto found = gathered_.find(first_row);
  if (found == gathered_.end()) {
    ASSIGN_OR_RETURN(Gathered all, CatchTorch([&] {
                       const c10::InferenceMode no_autograd;
                       return GatherAll(first_row, request);
                     }));
    found = gathered_.emplace(first_row, std::move(all)).first;
  }
  ESPALIER_CHECK(found->second.request == request);
  const auto& gathered = found->second.rows[index];
  if (!gathered.has_value()) return CheckFinite(Row(row));
  return *gathered;
}

absl::StatusOr<DeviceLogitRows::Gathered> DeviceLogitRows::GatherAll(
    int64_t first_row, const GatherRequest& request) const {
  const RowSupports& supports = *request.supports;
  const at::Tensor rows = logits_.narrow(/*dim=*/0, first_row, supports.rows());
  const at::Tensor places =
      PlacesOf(supports, logits_.size(1), logits_.device());
  const at::Tensor inside = rows.reshape({-1}).index_select(/*dim=*/0, places);
  const at::Tensor outside = rows.clone();
  outside.view({-1}).index_fill_(/*dim=*/0, places, kNothing);
  const at::Tensor peaks = outside.amax(/*dim=*/1, /*keepdim=*/true);
  const at::Tensor masses = outside.sub_(peaks)
                                .div_(request.temperature)
                                .exp_()
                                .sum(/*dim=*/1, /*keepdim=*/false, at::kDouble);
  // One copy, of doubles.
  const at::Tensor all =
      at::cat({inside.to(at::kDouble), rows.amax(/*dim=*/1).to(at::kDouble),
               peaks.squeeze(/*dim=*/1).to(at::kDouble), masses,
               rows.isfinite().all(/*dim=*/1).to(at::kDouble)})
          .to(at::kCPU);  // sync
  const double* const logits = all.const_data_ptr<double>();
  const double* const largest = logits + supports.tokens.size();
  const double* const peak = largest + supports.rows();
  const double* const mass = peak + supports.rows();
  const double* const is_finite = mass + supports.rows();

  Gathered gathered = {.request = request};
  for (int64_t row = 0; row < supports.rows(); ++row) {
    auto& result = gathered.rows.emplace_back();
    if (is_finite[row] == 0) continue;
    result.emplace();
    for (int64_t i = supports.ends[row]; i < supports.ends[row + 1]; ++i) {
      result->log_weights.push_back(LogWeight(static_cast<float>(logits[i]),
                                              static_cast<float>(largest[row]),
                                              request.temperature));
    }
    if (peak[row] == kNothing) continue;  // no token is outside
    result->outside =
        mass[row] * std::exp((peak[row] - largest[row]) / request.temperature);
  }
  return gathered;
}

}  // namespace espalier
