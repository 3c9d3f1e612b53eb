#include "common/model/logits/gathered_rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "common/base/status_macros.h"
#include "common/speculation/noisy_argmax.h"

namespace espalier {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();

}  // namespace

GatheredRows::GatheredRows(const GatherRequest& request, int64_t vocab,
                           const nn::Kernels& kernels, int64_t threads)
    : request_(request),
      kernels_(kernels),
      sampled_(request.OutsideDraw(),
               std::vector<int64_t>(request.supports->rows(), request.round),
               kernels, threads, request.supports),
      inside_(request.supports->tokens.size()),
      masses_(nn::ProductChunkCount(vocab) * request.supports->rows()) {}

void GatheredRows::Take(const nn::ProductChunk& chunk) {
  sampled_.Take(chunk);
  for (int64_t row = 0; row < request_.supports->rows(); ++row) {
    TakeRow(chunk, row);
  }
}

void GatheredRows::TakeRow(const nn::ProductChunk& chunk, int64_t row) {
  const std::optional<RowPeaks> peaks = FindPeaks(chunk, row, kernels_);
  if (!peaks.has_value()) return;  // sampled_ reports the error
  alignas(64) std::array<float, nn::kChunkColumns> outside;
  std::copy_n(chunk.Row(row).data(), chunk.columns, outside.begin());
  float largest = peaks->largest;

  const RowSupports& supports = *request_.supports;
  const int64_t first = chunk.first_column();
  const auto begin = supports.tokens.begin();
  const auto here = std::lower_bound(begin + supports.ends[row],
                                     begin + supports.ends[row + 1], first);
  const auto end = std::lower_bound(here, begin + supports.ends[row + 1],
                                    first + chunk.columns);
  if (here != end) {
    for (auto token = here; token != end; ++token) {
      inside_[token - begin] = std::exchange(outside[*token - first], kNothing);
    }
    largest =
        *std::max_element(outside.begin(), outside.begin() + chunk.columns);
    if (largest == kNothing) return;
  }
  for (int64_t i = 0; i < chunk.columns; ++i) {
    outside[i] = LogWeight(outside[i], largest, request_.temperature);
  }
  masses_[chunk.index * supports.rows() + row] = {
      .largest = largest,
      .sum = kernels_.sum_exp(outside.data(), chunk.columns, /*shift=*/0)};
}

absl::StatusOr<GatheredRow> GatheredRows::Gather(int64_t row) const {
  ASSIGN_OR_RETURN(const float largest, sampled_.Largest(row));
  const RowSupports& supports = *request_.supports;
  GatheredRow gathered;
  for (int64_t i = supports.ends[row]; i < supports.ends[row + 1]; ++i) {
    gathered.log_weights.push_back(
        LogWeight(inside_[i], largest, request_.temperature));
  }
  // Summed in chunk order, independent of the threads that took them.
  const auto size = static_cast<int64_t>(masses_.size());
  for (int64_t i = row; i < size; i += supports.rows()) {
    gathered.outside +=
        masses_[i].sum *
        std::exp((double{masses_[i].largest} - largest) / request_.temperature);
  }
  return gathered;
}

}  // namespace espalier
