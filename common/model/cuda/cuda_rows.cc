#include "common/model/cuda/cuda_rows.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/speculation/gumbel_noise.h"
#include "common/speculation/near_tie.h"
#include "common/speculation/noisy_argmax.h"

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

// Draws among the contenders, which are all tokens that could win. At
// temperature 0 it takes the largest logit.
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
  RankRequest ranks;
  cuda::LogitBlock logits;
  int64_t first_row = 0;
  std::vector<int64_t> positions;  // [rows] of draws

  std::vector<cuda::FilterRow> filter_rows;
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

  // The places of the answers.
  struct {
    absl::Span<const cuda::DrawResult> sampled;
    absl::Span<const cuda::RankResult> ranked;
    absl::Span<const cuda::LogitOfToken> top;
    absl::Span<const cuda::GatherResult> gathered;
    absl::Span<const float> support_logits;
  } coming;
  DeviceArray<cuda::FilterResult> filters;
  DeviceArray<cuda::DrawChunk> chunks;
  DeviceArray<cuda::RankPart> rank_parts;
  std::vector<cuda::KernelArgs> launches;
};

CudaRows::CudaRows(std::shared_ptr<cuda::ComputeDevice> device,
                   ReusedArray<float>::Held logits, int64_t vocab,
                   int64_t stride)
    : device_(std::move(device)),
      logits_(std::move(logits)),
      vocab_(vocab),
      stride_(stride) {}

CudaRows::~CudaRows() = default;

absl::Status CudaRows::Add(const Part& part, Mailbox& requests,
                           Mailbox& answers) {
  if (part.rows == 0) return absl::OkStatus();
  parts_.push_back(std::make_unique<Queued>());
  Queued& queued = *parts_.back();
  queued.use = part.use;
  queued.ranks = part.ranks;
  queued.first_row = num_rows();
  queued.logits = {.logits = logits() + num_rows() * stride_,
                   .rows = static_cast<int>(part.rows),
                   .vocab = static_cast<int>(vocab_),
                   .stride = stride_};
  for (int64_t row = 0; row < part.rows; ++row) {
    places_.push_back({&queued, row});
  }
  rows_.resize(places_.size());
  const Post post = {requests, answers};
  if (queued.ranks.top_k > 0) {
    RETURN_IF_ERROR(AddRanks(queued.ranks, post, queued));
  }
  return AddUse(part, post, queued);
}

absl::Status CudaRows::AddUse(const Part& part, const Post& post,
                              Queued& queued) {
  if (const auto* draw = std::get_if<DrawRequest>(&part.use)) {
    return AddDraws(*draw, part.positions, /*without=*/nullptr, post, queued);
  }
  if (const auto* draw = std::get_if<FilteredDrawRequest>(&part.use)) {
    return AddFilteredDraws(*draw, part.positions, post, queued);
  }
  if (const auto* rank = std::get_if<RankRequest>(&part.use)) {
    queued.ranks = *rank;
    return AddRanks(*rank, post, queued);
  }
  if (const auto* gather = std::get_if<GatherRequest>(&part.use)) {
    return AddGathers(*gather, post, queued);
  }
  return absl::OkStatus();
}

absl::Status CudaRows::AddDraws(const DrawRequest& request,
                                absl::Span<const int64_t> positions,
                                const RowSupports* without, const Post& post,
                                Queued& part) {
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
  ASSIGN_OR_RETURN(const auto* draws, post.requests.Put(part.draw_rows));
  ASSIGN_OR_RETURN(const auto* excluded, post.requests.Put(part.without));
  ASSIGN_OR_RETURN(part.chunks,
                   DeviceArray<cuda::DrawChunk>::Make(*device_, rows * chunks));
  ASSIGN_OR_RETURN(const auto sampled,
                   post.answers.Reserve<cuda::DrawResult>(rows));
  part.coming.sampled = sampled.here;
  part.launches.push_back(cuda::DrawArgs{.logits = part.logits,
                                         .rows = draws,
                                         .without = excluded,
                                         .filters = part.filters.data(),
                                         .chunks = part.chunks.data(),
                                         .results = sampled.there});
  return absl::OkStatus();
}

absl::Status CudaRows::AddFilteredDraws(const FilteredDrawRequest& request,
                                        absl::Span<const int64_t> positions,
                                        const Post& post, Queued& part) {
  cuda::FilterRow filter = {.temperature = request.draw.temperature,
                            .top_k = request.top_k,
                            .top_p = request.top_p};
  if (request.min_p > 0) filter.least_weight = std::log(request.min_p);
  part.filter_rows.assign(positions.size(), filter);
  ASSIGN_OR_RETURN(const auto* rows, post.requests.Put(part.filter_rows));
  ASSIGN_OR_RETURN(part.filters, DeviceArray<cuda::FilterResult>::Make(
                                     *device_, std::ssize(positions)));
  part.launches.push_back(cuda::FilterArgs{
      .logits = part.logits, .rows = rows, .results = part.filters.data()});
  return AddDraws(request.draw, positions, /*without=*/nullptr, post, part);
}

absl::Status CudaRows::AddRanks(const RankRequest& request, const Post& post,
                                Queued& part) {
  part.top_k = std::min<int64_t>(request.top_k, vocab_);
  if (part.top_k > cuda::kMaxRanked) return absl::OkStatus();  // from the row
  ASSIGN_OR_RETURN(const auto ranked,
                   post.answers.Reserve<cuda::RankResult>(part.logits.rows));
  ASSIGN_OR_RETURN(const auto top, post.answers.Reserve<cuda::LogitOfToken>(
                                       part.logits.rows * part.top_k));
  ASSIGN_OR_RETURN(part.rank_parts,
                   DeviceArray<cuda::RankPart>::Make(
                       *device_, part.logits.rows * cuda::kMaxRankParts));
  part.coming.ranked = ranked.here;
  part.coming.top = top.here;
  part.launches.push_back(cuda::RankArgs{.logits = part.logits,
                                         .top_k = static_cast<int>(part.top_k),
                                         .parts = part.rank_parts.data(),
                                         .results = ranked.there,
                                         .top = top.there});
  return absl::OkStatus();
}

absl::Status CudaRows::AddGathers(const GatherRequest& request,
                                  const Post& post, Queued& part) {
  const RowSupports& supports = *request.supports;
  ESPALIER_CHECK(supports.rows() == part.logits.rows);
  for (int row = 0; row < part.logits.rows; ++row) {
    part.gather_rows.push_back(
        {.temperature = request.temperature,
         .support_begin = static_cast<int32_t>(supports.ends[row]),
         .support_end = static_cast<int32_t>(supports.ends[row + 1])});
  }
  part.support = supports.tokens;
  ASSIGN_OR_RETURN(const auto* rows, post.requests.Put(part.gather_rows));
  ASSIGN_OR_RETURN(const auto* support, post.requests.Put(part.support));
  ASSIGN_OR_RETURN(const auto gathered,
                   post.answers.Reserve<cuda::GatherResult>(part.logits.rows));
  ASSIGN_OR_RETURN(const auto logits,
                   post.answers.Reserve<float>(std::ssize(part.support)));
  part.coming.gathered = gathered.here;
  part.coming.support_logits = logits.here;
  part.launches.push_back(cuda::GatherArgs{.logits = part.logits,
                                           .rows = rows,
                                           .support = support,
                                           .results = gathered.there,
                                           .support_logits = logits.there});
  return AddDraws(request.OutsideDraw(),
                  std::vector<int64_t>(part.logits.rows, request.round),
                  &supports, post, part);
}

void CudaRows::Launch() {
  for (const auto& part : parts_) {
    for (const cuda::KernelArgs& args : part->launches) device_->Launch(args);
  }
}

void CudaRows::TakeAnswers() {
  const auto take = [](auto& to, auto& from) {
    to.assign(from.begin(), from.end());
    from = {};
  };
  for (const auto& part : parts_) {
    take(part->sampled, part->coming.sampled);
    take(part->ranked, part->coming.ranked);
    take(part->top, part->coming.top);
    take(part->gathered, part->coming.gathered);
    take(part->support_logits, part->coming.support_logits);
    part->chunks = DeviceArray<cuda::DrawChunk>();
    part->rank_parts = DeviceArray<cuda::RankPart>();
    part->filters = DeviceArray<cuda::FilterResult>();
  }
}

const CudaRows::Place& CudaRows::At(int64_t row) const {
  ESPALIER_CHECK(0 <= row && row < num_rows());
  return places_[row];
}

absl::Span<const float> CudaRows::Row(int64_t row) const {
  At(row);
  if (rows_[row] == nullptr) {
    auto values = std::make_unique<std::vector<float>>(vocab_);
    logits_->Read(row * stride_, absl::MakeSpan(*values));
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
  if (result.contenders <= cuda::kMaxContenders) {
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

absl::StatusOr<std::optional<SampledToken>> CudaRows::DrawFiltered(
    int64_t row, const FilteredDrawRequest& request, int64_t position) const {
  const Place& place = At(row);
  const auto* const asked = std::get_if<FilteredDrawRequest>(&place.part->use);
  if (asked == nullptr) return std::nullopt;
  ESPALIER_CHECK(*asked == request &&
                 place.part->positions[place.row] == position);
  const cuda::DrawResult& result = place.part->sampled[place.row];
  RETURN_IF_ERROR(CheckBad(row, result.bad_token));
  if (result.contenders > cuda::kMaxContenders || result.is_doubtful != 0) {
    return std::nullopt;
  }
  return DrawAmong(result, request.draw, position);
}

absl::StatusOr<Ranking> CudaRows::Rank(int64_t row,
                                       const RankRequest& request) const {
  const auto [part, own_row] = At(row);
  if (part->ranked.empty()) return LogitRows::Rank(row, request);
  ESPALIER_CHECK(part->ranks == request);
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
