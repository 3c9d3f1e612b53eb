#include "common/model/logits/ranked_rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "common/base/status_macros.h"

namespace espalier {

RankedRows::RankedRows(const RankRequest& request, int64_t rows, int64_t vocab,
                       const nn::Kernels& kernels, int64_t threads,
                       absl::Span<const RowNoise> noise)
    : request_(request),
      rows_(rows),
      noise_(noise.begin(), noise.end()),
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
  std::array<float, nn::kChunkPanels> bounds = peaks->of_panel;
  if (IsNoisy(row)) Bound(chunk, row, bounds.data());
  for (int64_t panel = 0; panel < peaks->panels; ++panel) {
    if (!IsFull(top) || bounds[panel] >= top.heap.front().score) {
      Scan(chunk, row, panel);
    }
  }
}

bool RankedRows::Precedes(const Entry& a, const Entry& b) {
  return a.score != b.score ? a.score > b.score : a.token.token < b.token.token;
}

bool RankedRows::IsFull(const Top& top) const {
  return static_cast<int64_t>(top.heap.size()) == request_.top_k;
}

bool RankedRows::IsNoisy(int64_t row) const {
  return !noise_.empty() && noise_[row].temperature != 0;
}

void RankedRows::Bound(const nn::ProductChunk& chunk, int64_t row,
                       float* panels) const {
  kernels_.peaks({.x = chunk.Row(row).data(),
                  .size = chunk.columns,
                  .offsets = &noise_[row].ceilings[chunk.first_column()],
                  .scale = noise_[row].temperature,
                  .peaks = panels});
}

double RankedRows::Ceiling(int64_t row, const RankedToken& token) const {
  if (!IsNoisy(row)) return token.logit;
  const RowNoise& noise = noise_[row];
  return token.logit + noise.temperature * noise.ceilings[token.token];
}

double RankedRows::Score(int64_t row, const RankedToken& token) const {
  if (!IsNoisy(row)) return token.logit;
  const RowNoise& noise = noise_[row];
  return token.logit +
         noise.temperature * noise.noise(noise.tokens[token.token]);
}

void RankedRows::Scan(const nn::ProductChunk& chunk, int64_t row,
                      int64_t panel) {
  Top& top = top_[chunk.thread][row];
  const auto [begin, end] = chunk.PanelRange(panel);
  for (int64_t i = begin; i < end; ++i) {
    const RankedToken token = {static_cast<TokenId>(chunk.first_column() + i),
                               chunk.Row(row)[i]};
    if (IsFull(top) && Ceiling(row, token) < top.heap.front().score) continue;
    const Entry entry = {token, Score(row, token)};
    if (IsFull(top)) {
      if (!Precedes(entry, top.heap.front())) continue;
      std::pop_heap(top.heap.begin(), top.heap.end(), Precedes);
      top.heap.pop_back();
    }
    top.heap.push_back(entry);
    std::push_heap(top.heap.begin(), top.heap.end(), Precedes);
  }
}

absl::StatusOr<Ranking> RankedRows::Rank(int64_t row) const {
  FiniteCheck finite;
  std::vector<Entry> best;
  for (const std::vector<Top>& rows : top_) {
    const Top& top = rows[row];
    finite.Merge(top.finite);
    best.insert(best.end(), top.heap.begin(), top.heap.end());
  }
  RETURN_IF_ERROR(finite.status());
  std::sort(best.begin(), best.end(), Precedes);
  best.resize(std::min<size_t>(best.size(), request_.top_k));
  Ranking ranking;
  for (const Entry& entry : best) ranking.top.push_back(entry.token);

  // Summed in chunk order, independent of the threads that took them.
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
