#include "common/model/logits/sampled_rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/speculation/gumbel_noise.h"
#include "common/speculation/near_tie.h"
#include "common/speculation/noisy_argmax.h"

namespace espalier {
namespace {

using nn::kChunkColumns;
using nn::kChunkPanels;

// Returns how far a score below the best may lie if DrawFrom is to see the two
// within kNearTie, or in the other order. Only log-weights above -790 can
// matter there: noise lies between -3.2 and 22.9, and if no token that may be
// sampled weighs more than e^-760, nothing is sampled. float32 keeps all digits
// of such log-weights but 790 * 2^-23.
double Margin(const DrawRequest& request) {
  constexpr double kRounding = 2e-4;
  return (request.temperature == 0 ? 1 : request.temperature) *
         (kNearTie + kRounding);
}

constexpr float kLowest = -std::numeric_limits<float>::infinity();
constexpr float kSmallest = std::numeric_limits<float>::lowest();

// The largest logit, and whether another is near.
SampledToken GreedyDraw(absl::Span<const RankedToken> tokens) {
  const auto best = std::min_element(tokens.begin(), tokens.end(), IsAhead);
  const auto near = std::count_if(
      tokens.begin(), tokens.end(), [best](const RankedToken& token) {
        return best->logit - token.logit <= kNearTie;
      });
  return {.token = best->token, .near_tie = near > 1};
}

}  // namespace

SampledRows::Race::Race() : largest(kLowest), best(kLowest), floor(kLowest) {}

void SampledRows::Race::Enter(const RankedToken& token, double score,
                              double margin) {
  // Huge logits leave float64 few digits for the noise.
  const double top = std::max(best, score);
  const double lowest = top - margin - std::abs(top) * 0x1p-48;
  if (score < lowest) return;
  if (score > best) {
    best = score;
    // Rounding keeps order: a score from here on has a rounded upper bound that
    // is not below it.
    floor = static_cast<float>(std::max<double>(lowest, kSmallest));
    std::erase_if(contenders,
                  [lowest](const Contender& c) { return c.score < lowest; });
  }
  contenders.push_back({token, score});
}

// The noise of one position. Its upper bounds on a chunk are computed when the
// first row needs them.
struct SampledRows::Noise {
  GumbelNoise gumbel;
  bool known = false;
  alignas(64) std::array<float, kChunkColumns> ceilings = {};

  const float* CeilingsOf(const nn::ProductChunk& chunk,
                          const nn::Kernels& kernels) {
    if (!known) {
      known = true;
      const GumbelNoise::Stream stream =
          gumbel.StreamFrom(static_cast<TokenId>(chunk.first_column()));
      kernels.noise_ceilings({.key = stream.key,
                              .counter = {stream.counter[0], stream.counter[1],
                                          stream.counter[2], stream.counter[3]},
                              .panels = kChunkPanels,
                              .ceilings = ceilings.data()});
    }
    return ceilings.data();
  }
};

SampledRows::SampledRows(const DrawRequest& request,
                         absl::Span<const int64_t> positions,
                         const nn::Kernels& kernels, int64_t threads,
                         std::shared_ptr<const RowSupports> without)
    : request_(request),
      positions_(positions.begin(), positions.end()),
      kernels_(kernels),
      without_(std::move(without)),
      margin_(Margin(request)),
      by_position_(positions.size()),
      races_(threads, std::vector<Race>(positions.size())) {
  std::iota(by_position_.begin(), by_position_.end(), 0);
  std::stable_sort(
      by_position_.begin(), by_position_.end(),
      [this](int64_t a, int64_t b) { return positions_[a] < positions_[b]; });
}

void SampledRows::Take(const nn::ProductChunk& chunk) {
  for (size_t i = 0; i < by_position_.size();) {
    const int64_t position = positions_[by_position_[i]];
    Noise noise = {.gumbel =
                       GumbelNoise(request_.seed, position, request_.noise)};
    for (; i < by_position_.size() && positions_[by_position_[i]] == position;
         ++i) {
      TakeRow(chunk, by_position_[i], noise);
    }
  }
}

void SampledRows::TakeRow(const nn::ProductChunk& chunk, int64_t row,
                          Noise& noise) {
  Race& race = races_[chunk.thread][row];
  std::optional<RowPeaks> peaks = FindPeaks(chunk, row, kernels_);
  if (!peaks.has_value()) {
    race.finite.Fail(chunk, row);
    return;
  }
  race.largest = std::max(race.largest, peaks->largest);

  const float scale = request_.temperature;
  constexpr float kCeiling = GumbelNoise::kUpperBound;
  if (peaks->largest + scale * kCeiling < race.floor) return;
  if (scale > 0) {
    kernels_.peaks({.x = chunk.Row(row).data(),
                    .size = chunk.columns,
                    .offsets = noise.CeilingsOf(chunk, kernels_),
                    .scale = scale,
                    .peaks = peaks->of_panel.data()});
  }
  for (int64_t panel = 0; panel < peaks->panels; ++panel) {
    if (peaks->of_panel[panel] >= race.floor) Scan(chunk, row, panel, noise);
  }
}

void SampledRows::Scan(const nn::ProductChunk& chunk, int64_t row,
                       int64_t panel, const Noise& noise) {
  Race& race = races_[chunk.thread][row];
  const absl::Span<const float> logits = chunk.Row(row);
  const float scale = request_.temperature;
  const auto [begin, end] = chunk.PanelRange(panel);
  for (int64_t i = begin; i < end; ++i) {
    const float ceiling = scale > 0 ? noise.ceilings[i] : 0.0f;
    if (logits[i] + scale * ceiling < race.floor) continue;
    const auto token = static_cast<TokenId>(chunk.first_column() + i);
    if (IsWithout(row, token)) continue;
    double score = logits[i];
    if (scale > 0) score += scale * noise.gumbel(token);
    race.Enter({token, logits[i]}, score, margin_);
  }
}

bool SampledRows::IsWithout(int64_t row, TokenId token) const {
  if (without_ == nullptr) return false;
  const absl::Span<const TokenId> tokens = without_->Of(row);
  return std::binary_search(tokens.begin(), tokens.end(), token);
}

absl::StatusOr<float> SampledRows::Largest(int64_t row) const {
  FiniteCheck finite;
  float largest = kLowest;
  for (const std::vector<Race>& races : races_) {
    finite.Merge(races[row].finite);
    largest = std::max(largest, races[row].largest);
  }
  RETURN_IF_ERROR(finite.status());
  return largest;
}

absl::StatusOr<SampledToken> SampledRows::Draw(int64_t row) const {
  ASSIGN_OR_RETURN(const float largest, Largest(row));
  std::vector<RankedToken> contenders;
  for (const std::vector<Race>& races : races_) {
    for (const Contender& c : races[row].contenders) {
      contenders.push_back(c.token);
    }
  }
  ESPALIER_CHECK(!contenders.empty());
  if (request_.temperature == 0) return GreedyDraw(contenders);
  NoisyArgmax argmax(
      GumbelNoise(request_.seed, positions_[row], request_.noise));
  const auto weight = [&](const RankedToken& token) {
    return LogWeight(token.logit, largest, request_.temperature);
  };
  for (const RankedToken& token : contenders) {
    argmax.Consider(token.token, weight(token));
  }
  const auto winner = std::find_if(
      contenders.begin(), contenders.end(),
      [&](const RankedToken& c) { return c.token == argmax.winner(); });
  return SampledToken{.token = winner->token,
                      .near_tie = argmax.near_tie(),
                      .log_weight = weight(*winner)};
}

}  // namespace espalier
