#include "drafter/heads/candidate_head.h"

#include <algorithm>
#include <utility>

#include "common/base/status_macros.h"
#include "common/model/logits/ranked_rows.h"
#include "common/speculation/gumbel_noise.h"

namespace espalier::drafter {
namespace {

// Returns the number of panels, from token 0 on, that hold all of the tokens.
int64_t PanelsUpTo(absl::Span<const TokenId> tokens) {
  if (tokens.empty()) return 0;
  return 1 +
         *std::max_element(tokens.begin(), tokens.end()) / nn::kPanelOutputs;
}

}  // namespace

CandidateHead::CandidateHead(DraftVocabulary vocabulary, NativeLinear rows,
                             double logit_softcap)
    : vocabulary_(std::move(vocabulary)),
      rows_(std::move(rows)),
      softcap_(static_cast<float>(logit_softcap)),
      noise_panels_(PanelsUpTo(vocabulary_.tokens())),
      all_ceilings_(noise_panels_ * nn::kPanelOutputs) {}

absl::StatusOr<std::vector<std::vector<Candidate>>> CandidateHead::Rank(
    NativeLayers& layers, const float* x, absl::Span<const Query> queries,
    int64_t width) {
  std::vector<std::vector<Candidate>> candidates(queries.size());
  if (queries.empty()) return candidates;
  std::vector<RowNoise> noise;
  for (const Query& query : queries) {
    noise.push_back(NoiseOf(query, layers.kernels()));
  }
  const int64_t rows = static_cast<int64_t>(queries.size());
  RankedRows ranked({.top_k = static_cast<int32_t>(width)}, rows,
                    vocabulary_.size(), layers.kernels(), layers.threads(),
                    noise);
  layers.Stream(
      {.linear = rows_, .input = {x}, .rows = rows, .softcap = softcap_},
      [&](const nn::ProductChunk& chunk) { ranked.Take(chunk); });
  DropOldCeilings(queries.size());
  for (int64_t row = 0; row < rows; ++row) {
    ASSIGN_OR_RETURN(const Ranking ranking, ranked.Rank(row));
    for (const RankedToken& best : ranking.top) {
      candidates[row].push_back(
          {.token = vocabulary_.tokens()[best.token],
           .log_prob = std::min(0.0, best.logit - ranking.log_sum_exp)});
    }
  }
  return candidates;
}

RowNoise CandidateHead::NoiseOf(const Query& query,
                                const nn::Kernels& kernels) {
  const GumbelNoise noise(query.sampling.seed, query.position);
  if (query.sampling.greedy()) return {.noise = noise};
  return {.noise = noise,
          .temperature = query.sampling.temperature,
          .ceilings = CeilingsOf(query, kernels),
          .tokens = vocabulary_.tokens()};
}

absl::Span<const float> CandidateHead::CeilingsOf(const Query& query,
                                                  const nn::Kernels& kernels) {
  const auto held =
      std::find_if(ceilings_.begin(), ceilings_.end(), [&](const Ceilings& c) {
        return c.seed == query.sampling.seed && c.position == query.position;
      });
  if (held != ceilings_.end()) {
    ceilings_.splice(ceilings_.begin(), ceilings_, held);
    return held->values;
  }
  const GumbelNoise::Stream stream =
      GumbelNoise(query.sampling.seed, query.position).StreamFrom(0);
  kernels.noise_ceilings({.key = stream.key,
                          .counter = {stream.counter[0], stream.counter[1],
                                      stream.counter[2], stream.counter[3]},
                          .panels = noise_panels_,
                          .ceilings = all_ceilings_.data()});
  Ceilings made = {.seed = query.sampling.seed, .position = query.position};
  for (TokenId token : vocabulary_.tokens()) {
    made.values.push_back(all_ceilings_[token]);
  }
  ceilings_.push_front(std::move(made));
  return ceilings_.front().values;
}

// Keeps as many as this call may have used, and some for the next rounds.
void CandidateHead::DropOldCeilings(size_t used) {
  constexpr size_t kHeld = 32;
  while (ceilings_.size() > std::max(used, kHeld)) ceilings_.pop_back();
}

}  // namespace espalier::drafter
