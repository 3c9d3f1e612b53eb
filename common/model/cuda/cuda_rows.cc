#include "common/model/cuda/cuda_rows.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/model/cuda/device_vectors.h"
#include "common/spec/gumbel_noise.h"
#include "common/spec/near_tie.h"
#include "common/spec/noisy_argmax.h"

namespace espalier {
namespace {

using cuda::DeviceArray;

// How far below the best score, in units of logits, a token may lie if it is to
// be sampled or be a near tie in float64. Covers the rounding of float32 scores
// and of the noise.
float Margin(float temperature) {
  constexpr double kRounding = 4e-4;
  return static_cast<float>((temperature == 0 ? 1 : temperature) *
                            (kNearTie + kRounding));
}

// Room for results there, and here where they go.
template <typename T>
absl::Status Expect(cuda::ComputeDevice& device, int64_t size,
                    DeviceArray<T>& array, std::vector<T>& values) {
  values.resize(size);
  return GrowArray(device, std::max<int64_t>(size, 1), array);
}

// Of the contenders, which are all that could win. The largest logit draws if
// the temperature is 0.
SampledToken DrawAmong(const cuda::DrawResult& result,
                       const DrawRequest& request, int64_t position) {
  const absl::Span<const cuda::LogitOfToken> contenders(result.contender,
                                                        result.contenders);
  if (request.temperature == 0) {
    const auto near = std::count_if(
        contenders.begin(), contenders.end(), [&](const auto& contender) {
          return double{result.largest} - contender.logit <= kNearTie;
        });
    const auto best =
        std::find_if(contenders.begin(), contenders.end(),
                     [&](const auto& c) { return c.logit == result.largest; });
    return {.token = best->token, .near_tie = near > 1};
  }
  NoisyArgmax argmax(GumbelNoise(request.seed, position, request.noise));
  const auto weight = [&](const cuda::LogitOfToken& contender) {
    return LogWeight(contender.logit, result.largest, request.temperature);
  };
  for (const auto& contender : contenders) {
    argmax.Consider(contender.token, weight(contender));
  }
  const auto winner =
      std::find_if(contenders.begin(), contenders.end(),
                   [&](const auto& c) { return c.token == argmax.winner(); });
  return {.token = winner->token,
          .near_tie = argmax.near_tie(),
          .log_weight = weight(*winner)};
}

}  // namespace

struct CudaRows::Queued {
  LogitUse use;
  cuda::LogitBlock logits;
  int64_t first_row = 0;
  std::vector<int64_t> positions;  // [rows] of draws

  std::vector<cuda::DrawRow> draw_rows;
  std::vector<int32_t> without;
  std::vector<cuda::DrawResult> sampled;
  std::vector<cuda::RankResult> ranked;
  std::vector<cuda::LogitOfToken> top;  // [rows, top_k]
  int64_t top_k = 0;
  std::vector<cuda::GatherRow> gather_rows;
  std::vector<int32_t> support;
  std::vector<cuda::GatherResult> gathered;
  std::vector<float> support_logits;

  struct {
    DeviceArray<cuda::DrawRow> draw_rows;
    DeviceArray<int32_t> without;
    DeviceArray<cuda::DrawChunk> chunks;
    DeviceArray<cuda::DrawResult> sampled;
    DeviceArray<cuda::RankResult> ranked;
    DeviceArray<cuda::LogitOfToken> top;
    DeviceArray<cuda::GatherRow> gather_rows;
    DeviceArray<int32_t> support;
    DeviceArray<cuda::GatherResult> gathered;
    DeviceArray<float> support_logits;
  } there;
};

CudaRows::CudaRows(std::shared_ptr<cuda::ComputeDevice> device,
                   cuda::DeviceArray<float> logits, int64_t vocab,
                   int64_t stride)
    : device_(std::move(device)),
      logits_(std::move(logits)),
      vocab_(vocab),
      stride_(stride) {}

CudaRows::~CudaRows() = default;

absl::Status CudaRows::Add(const Part& part) {
  if (part.rows == 0) return absl::OkStatus();
  parts_.push_back(std::make_unique<Queued>());
  Queued& queued = *parts_.back();
  queued.use = part.use;
  queued.first_row = num_rows();
  queued.logits = {.logits = logits_.data() + num_rows() * stride_,
                   .rows = static_cast<int>(part.rows),
                   .vocab = static_cast<int>(vocab_),
                   .stride = stride_};
  for (int64_t row = 0; row < part.rows; ++row) {
    places_.push_back({&queued, row});
  }
  rows_.resize(places_.size());
  if (const auto* draw = std::get_if<DrawRequest>(&part.use)) {
    return QueueDraws(*draw, part.positions, /*without=*/nullptr, queued);
  }
  if (const auto* rank = std::get_if<RankRequest>(&part.use)) {
    return QueueRanks(*rank, queued);
  }
  if (const auto* gather = std::get_if<GatherRequest>(&part.use)) {
    return QueueGathers(*gather, queued);
  }
  return absl::OkStatus();
}

absl::Status CudaRows::QueueDraws(const DrawRequest& request,
                                  absl::Span<const int64_t> positions,
                                  const RowSupports* without, Queued& part) {
  part.positions.assign(positions.begin(), positions.end());
  for (size_t row = 0; row < positions.size(); ++row) {
    cuda::DrawRow draw = {.temperature = request.temperature,
                          .margin = Margin(request.temperature),
                          .seed = request.seed,
                          .position = static_cast<uint64_t>(positions[row]),
                          .purpose = static_cast<uint32_t>(request.noise)};
    if (without != nullptr) {
      draw.without_begin = static_cast<int32_t>(without->ends[row]);
      draw.without_end = static_cast<int32_t>(without->ends[row + 1]);
    }
    part.draw_rows.push_back(draw);
  }
  if (without != nullptr) part.without = without->tokens;
  const auto rows = static_cast<int64_t>(positions.size());
  const int64_t chunks =
      (vocab_ + cuda::kDrawChunkTokens - 1) / cuda::kDrawChunkTokens;
  RETURN_IF_ERROR(SendVector(*device_, part.draw_rows, part.there.draw_rows));
  RETURN_IF_ERROR(SendVector(*device_, part.without, part.there.without));
  ASSIGN_OR_RETURN(part.there.chunks,
                   DeviceArray<cuda::DrawChunk>::Make(*device_, rows * chunks));
  RETURN_IF_ERROR(Expect(*device_, rows, part.there.sampled, part.sampled));
  device_->Launch(cuda::DrawArgs{.logits = part.logits,
                                 .rows = part.there.draw_rows.data(),
                                 .without = part.there.without.data(),
                                 .chunks = part.there.chunks.data(),
                                 .results = part.there.sampled.data()});
  part.there.sampled.Read(0, absl::MakeSpan(part.sampled));
  return absl::OkStatus();
}

absl::Status CudaRows::QueueRanks(const RankRequest& request, Queued& part) {
  part.top_k = std::min<int64_t>(request.top_k, vocab_);
  if (part.top_k > cuda::kMostRanked) return absl::OkStatus();  // from the row
  RETURN_IF_ERROR(
      Expect(*device_, part.logits.rows, part.there.ranked, part.ranked));
  RETURN_IF_ERROR(Expect(*device_, part.logits.rows * part.top_k,
                         part.there.top, part.top));
  device_->Launch(cuda::RankArgs{.logits = part.logits,
                                 .top_k = static_cast<int>(part.top_k),
                                 .results = part.there.ranked.data(),
                                 .top = part.there.top.data()});
  part.there.ranked.Read(0, absl::MakeSpan(part.ranked));
  part.there.top.Read(0, absl::MakeSpan(part.top));
  return absl::OkStatus();
}

absl::Status CudaRows::QueueGathers(const GatherRequest& request,
                                    Queued& part) {
  const RowSupports& supports = *request.supports;
  ESPALIER_CHECK(supports.rows() == part.logits.rows);
  for (int row = 0; row < part.logits.rows; ++row) {
    part.gather_rows.push_back(
        {.temperature = request.temperature,
         .support_begin = static_cast<int32_t>(supports.ends[row]),
         .support_end = static_cast<int32_t>(supports.ends[row + 1])});
  }
  part.support = supports.tokens;
  const auto size = static_cast<int64_t>(part.support.size());
  RETURN_IF_ERROR(
      SendVector(*device_, part.gather_rows, part.there.gather_rows));
  RETURN_IF_ERROR(SendVector(*device_, part.support, part.there.support));
  RETURN_IF_ERROR(
      Expect(*device_, part.logits.rows, part.there.gathered, part.gathered));
  RETURN_IF_ERROR(
      Expect(*device_, size, part.there.support_logits, part.support_logits));
  device_->Launch(
      cuda::GatherArgs{.logits = part.logits,
                       .rows = part.there.gather_rows.data(),
                       .support = part.there.support.data(),
                       .results = part.there.gathered.data(),
                       .support_logits = part.there.support_logits.data()});
  part.there.gathered.Read(0, absl::MakeSpan(part.gathered));
  part.there.support_logits.Read(0, absl::MakeSpan(part.support_logits));
  return QueueDraws(request.OutsideDraw(),
                    std::vector<int64_t>(part.logits.rows, request.round),
                    &supports, part);
}

const CudaRows::Place& CudaRows::At(int64_t row) const {
  ESPALIER_CHECK(0 <= row && row < num_rows());
  return places_[row];
}

absl::Span<const float> CudaRows::Row(int64_t row) const {
  At(row);
  if (rows_[row] == nullptr) {
    auto values = std::make_unique<std::vector<float>>(vocab_);
    logits_.Read(row * stride_, absl::MakeSpan(*values));
    // A device that fails leaves no numbers that could pass for logits.
    if (!device_->Wait(device_->Record()).ok()) {
      std::fill(values->begin(), values->end(), NAN);
    }
    rows_[row] = std::move(values);
  }
  return *rows_[row];
}

absl::Status CudaRows::CheckBad(int64_t row, int32_t bad_token) const {
  if (bad_token < 0) return absl::OkStatus();
  return NotFinite(bad_token, Row(row)[bad_token]);
}

absl::StatusOr<SampledToken> CudaRows::Finish(int64_t row,
                                              const DrawRequest& request,
                                              int64_t position) const {
  const Place& place = At(row);
  const cuda::DrawResult& result = place.part->sampled[place.row];
  RETURN_IF_ERROR(CheckBad(row, result.bad_token));
  if (result.contenders <= cuda::kMostContenders) {
    return DrawAmong(result, request, position);
  }
  const cuda::DrawRow& draw = place.part->draw_rows[place.row];
  const absl::Span<const int32_t> without =
      absl::MakeConstSpan(place.part->without)
          .subspan(draw.without_begin, draw.without_end - draw.without_begin);
  return DrawFrom(Row(row), request, position, without);
}

absl::StatusOr<SampledToken> CudaRows::Draw(int64_t row,
                                            const DrawRequest& request,
                                            int64_t position) const {
  const Place& place = At(row);
  const auto* const asked = std::get_if<DrawRequest>(&place.part->use);
  if (asked == nullptr) return LogitRows::Draw(row, request, position);
  ESPALIER_CHECK(*asked == request &&
                 place.part->positions[place.row] == position);
  return Finish(row, request, position);
}

absl::StatusOr<Ranking> CudaRows::Rank(int64_t row,
                                       const RankRequest& request) const {
  const auto [part, own_row] = At(row);
  if (part->ranked.empty()) return LogitRows::Rank(row, request);
  ESPALIER_CHECK(std::get<RankRequest>(part->use) == request);
  const cuda::RankResult& result = part->ranked[own_row];
  RETURN_IF_ERROR(CheckBad(row, result.bad_token));
  Ranking ranking;
  for (int64_t i = 0; i < part->top_k; ++i) {
    const cuda::LogitOfToken& token = part->top[own_row * part->top_k + i];
    ranking.top.push_back({.token = token.token, .logit = token.logit});
  }
  ranking.log_sum_exp =
      result.largest +
      std::log(static_cast<double>(result.mass) * cuda::kMassUnit);
  return ranking;
}

absl::StatusOr<GatheredRow> CudaRows::Gather(int64_t row,
                                             const GatherRequest& request,
                                             int64_t index) const {
  const auto [part, own_row] = At(row);
  if (part->gathered.empty()) return LogitRows::Gather(row, request, index);
  ESPALIER_CHECK(std::get<GatherRequest>(part->use) == request &&
                 own_row == index);
  const cuda::GatherResult& result = part->gathered[index];
  RETURN_IF_ERROR(CheckBad(row, result.bad_token));
  GatheredRow gathered;
  const cuda::GatherRow& asked = part->gather_rows[index];
  for (int32_t i = asked.support_begin; i < asked.support_end; ++i) {
    gathered.log_weights.push_back(LogWeight(
        part->support_logits[i], result.largest, request.temperature));
  }
  gathered.outside =
      static_cast<double>(result.mass_outside) * cuda::kMassUnit *
      std::exp((double{result.largest_outside} - result.largest) /
               request.temperature);
  return gathered;
}

absl::StatusOr<SampledToken> CudaRows::SampleOutside(
    int64_t row, const GatherRequest& request, int64_t index) const {
  if (At(row).part->gathered.empty()) {
    return LogitRows::SampleOutside(row, request, index);
  }
  return Finish(row, request.OutsideDraw(), request.round);
}

}  // namespace espalier
