#include "common/model/ranked_rows.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "common/base/status_macros.h"

namespace espalier {

RankedRows::RankedRows(const RankRequest& request, int64_t rows, int64_t vocab,
                       const nn::Kernels& kernels, int64_t threads)
    : request_(request),
      rows_(rows),
      kernels_(kernels),
      masses_(nn::ProductChunkCount(vocab) * rows),
      top_(threads, std::vector<Top>(rows)) {}

void RankedRows::Take(const nn::ProductChunk& chunk) {
  for (int64_t row = 0; row < rows_; ++row) TakeRow(chunk, row);
}

void RankedRows::TakeRow(const nn::ProductChunk& chunk, int64_t row) {
  Top& top = top_[chunk.thread][row];
  const std::optional<RowPeaks> peaks = FindPeaks(chunk, row, kernels_);
  if (!peaks.has_value()) {
    top.finite.Fail(chunk, row);
    return;
  }
  masses_[chunk.index * rows_ + row] = {
      .largest = peaks->largest,
      .sum = kernels_.sum_exp(chunk.Row(row).data(), chunk.columns,
                              peaks->largest)};
  if (request_.top_k == 0) return;
  for (int64_t panel = 0; panel < peaks->panels; ++panel) {
    if (!IsFull(top) || peaks->of_panel[panel] >= top.heap.front().logit) {
      Scan(chunk, row, panel);
    }
  }
}

bool RankedRows::IsFull(const Top& top) const {
  return static_cast<int64_t>(top.heap.size()) == request_.top_k;
}

void RankedRows::Scan(const nn::ProductChunk& chunk, int64_t row,
                      int64_t panel) {
  Top& top = top_[chunk.thread][row];
  const auto [begin, end] = chunk.PanelRange(panel);
  for (int64_t i = begin; i < end; ++i) {
    const RankedToken token = {static_cast<TokenId>(chunk.first_column() + i),
                               chunk.Row(row)[i]};
    if (IsFull(top)) {
      if (!IsAhead(token, top.heap.front())) continue;
      std::pop_heap(top.heap.begin(), top.heap.end(), IsAhead);
      top.heap.pop_back();
    }
    top.heap.push_back(token);
    std::push_heap(top.heap.begin(), top.heap.end(), IsAhead);
  }
}

absl::StatusOr<Ranking> RankedRows::Rank(int64_t row) const {
  FiniteCheck finite;
  Ranking ranking;
  for (const std::vector<Top>& rows : top_) {
    const Top& top = rows[row];
    finite.Merge(top.finite);
    ranking.top.insert(ranking.top.end(), top.heap.begin(), top.heap.end());
  }
  RETURN_IF_ERROR(finite.status());
  std::sort(ranking.top.begin(), ranking.top.end(), IsAhead);
  ranking.top.resize(std::min<size_t>(ranking.top.size(), request_.top_k));

  // In the order of the chunks, whoever took them.
  double largest = masses_[row].largest, sum = 0;
  const int64_t size = static_cast<int64_t>(masses_.size());
  for (int64_t i = row; i < size; i += rows_) {
    largest = std::max<double>(largest, masses_[i].largest);
  }
  for (int64_t i = row; i < size; i += rows_) {
    sum += masses_[i].sum * std::exp(masses_[i].largest - largest);
  }
  ranking.log_sum_exp = largest + std::log(sum);
  return ranking;
}

}  // namespace espalier
