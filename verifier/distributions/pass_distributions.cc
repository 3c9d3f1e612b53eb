#include "verifier/distributions/pass_distributions.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "verifier/distributions/distribution_weights.h"
#include "verifier/flow/tree_supports.h"

namespace espalier::verifier {
namespace {

absl::Status AfterNode(int32_t node, const absl::Status& status) {
  return absl::Status(
      status.code(), absl::StrCat("after node ", node, ": ", status.message()));
}

// Calls see(i, place) for every token of `gathered`: place is the token's index
// in the support, or -1. REQUIRES: the support is a subset of the gathered
// tokens.
template <typename See>
void ForEachGathered(absl::Span<const TokenId> gathered,
                     absl::Span<const TokenId> support, See see) {
  int64_t next = 0;
  for (int64_t i = 0; i < std::ssize(gathered); ++i) {
    const bool is_inside =
        next < std::ssize(support) && support[next] == gathered[i];
    see(i, is_inside ? next++ : -1);
  }
  ESPALIER_CHECK(next == std::ssize(support));
}

}  // namespace

LogitUse LogitUseFor(const VerificationRule& rule, const TokenTree& tree,
                     const SamplingParams& sampling, int64_t first_position) {
  const SamplingParams unfiltered = {.temperature = sampling.temperature,
                                     .seed = sampling.seed};
  const bool is_filtered = !sampling.greedy() && sampling != unfiltered;
  switch (rule.needs().logits) {
    case LogitNeed::kWhole:
      break;
    case LogitNeed::kOneSample: {
      const DrawRequest draw = {.temperature = sampling.temperature,
                                .seed = sampling.seed};
      if (!is_filtered) return draw;
      if (sampling.typical_p < 1) break;
      return FilteredDrawRequest{.draw = draw,
                                 .top_k = sampling.top_k,
                                 .top_p = sampling.top_p,
                                 .min_p = sampling.min_p};
    }
    case LogitNeed::kGathered:
      if (sampling.greedy()) break;  // a distribution of one token
      if (is_filtered) break;
      return GatherRequest{
          .temperature = sampling.temperature,
          .seed = sampling.seed,
          .round = first_position,
          .supports = std::make_shared<RowSupports>(TreeSupports(tree))};
  }
  return AnyUse{};
}

PassDistributions::PassDistributions(const Input& input,
                                     DistributionTransform& transform)
    : input_(input), transform_(transform), depths_(input.tree.Depths()) {
  if (input.adjustments == nullptr || !input.adjustments->any()) return;
  ESPALIER_CHECK(std::holds_alternative<AnyUse>(input.use));
  ESPALIER_CHECK(input.adjustments->grammar.any() == (input.masks != nullptr));
  adjuster_.emplace(*input.adjustments, input.committed);
}

absl::StatusOr<TargetDistribution> PassDistributions::DistributionAt(
    int32_t node) {
  auto distribution = Distribution(node);
  if (!distribution.ok()) return AfterNode(node, distribution.status());
  return distribution;
}

absl::StatusOr<TargetDistribution> PassDistributions::Distribution(
    int32_t node) {
  const int64_t row = input_.first_row + node;
  if (adjuster_) {
    std::vector<TokenId> path;
    for (int32_t step : input_.tree.PathTo(node)) {
      path.push_back(input_.tree.tokens[step]);
    }
    absl::Span<const uint32_t> allowed;
    if (input_.masks != nullptr) allowed = input_.masks->Row(node);
    return transform_.Apply(input_.rows.Row(row), input_.sampling,
                            [&](absl::Span<float> logits) {
                              adjuster_->Apply(path, allowed, logits);
                            });
  }
  ASSIGN_OR_RETURN(const std::optional<SampledToken> sampled, SampledAt(node));
  if (!sampled.has_value()) {
    return transform_.Apply(input_.rows.Row(row), input_.sampling);
  }
  static constexpr float kCertain = 0;
  sampled_ = sampled->token;
  return TargetDistribution{.tokens = {&sampled_, 1},
                            .log_weights = {&kCertain, 1},
                            .near_tie = sampled->near_tie};
}

absl::StatusOr<std::optional<SampledToken>> PassDistributions::SampledAt(
    int32_t node) const {
  const int64_t row = input_.first_row + node;
  const int64_t position = input_.first_position + depths_[node];
  if (const auto* draw = std::get_if<DrawRequest>(&input_.use)) {
    return input_.rows.Draw(row, *draw, position);
  }
  if (const auto* filtered = std::get_if<FilteredDrawRequest>(&input_.use)) {
    return input_.rows.DrawFiltered(row, *filtered, position);
  }
  return std::nullopt;
}

absl::StatusOr<GatheredRow> PassDistributions::GatheredAt(
    int32_t node, const GatherRequest& request) const {
  auto row = input_.rows.Gather(input_.first_row + node, request, node);
  if (!row.ok()) return AfterNode(node, row.status());
  return row;
}

absl::StatusOr<double> PassDistributions::Gather(
    int32_t node, absl::Span<const TokenId> support,
    absl::Span<double> inside) {
  const auto* request = std::get_if<GatherRequest>(&input_.use);
  if (request == nullptr)
    return TargetDistributions::Gather(node, support, inside);
  ASSIGN_OR_RETURN(const GatheredRow row, GatheredAt(node, *request));
  double outside = row.outside;
  ForEachGathered(request->supports->Of(node), support,
                  [&](int64_t i, int64_t place) {
                    const double weight = std::exp(double{row.log_weights[i]});
                    if (place < 0) {
                      outside += weight;
                    } else {
                      inside[place] = weight;
                    }
                  });
  return Normalize(inside, outside);
}

// The sampler can take only one of the tokens that were not gathered, the one
// that the pass sampled, so the distribution needs no other.
absl::StatusOr<TokenId> PassDistributions::SampleOutside(
    int32_t node, absl::Span<const TokenId> support, int64_t round,
    TokenSampler& sampler) {
  const auto* request = std::get_if<GatherRequest>(&input_.use);
  if (request == nullptr) {
    return TargetDistributions::SampleOutside(node, support, round, sampler);
  }
  ESPALIER_CHECK(round == request->round);
  ASSIGN_OR_RETURN(const GatheredRow row, GatheredAt(node, *request));
  const absl::Span<const TokenId> gathered = request->supports->Of(node);
  std::vector<TokenId> tokens;
  std::vector<float> log_weights;
  ForEachGathered(gathered, support, [&](int64_t i, int64_t place) {
    if (place >= 0) return;
    tokens.push_back(gathered[i]);
    log_weights.push_back(row.log_weights[i]);
  });
  bool near_tie = false;
  if (row.outside > 0) {
    const auto sampled =
        input_.rows.SampleOutside(input_.first_row + node, *request, node);
    if (!sampled.ok()) return AfterNode(node, sampled.status());
    const auto place =
        std::lower_bound(tokens.begin(), tokens.end(), sampled->token);
    log_weights.insert(log_weights.begin() + (place - tokens.begin()),
                       sampled->log_weight);
    tokens.insert(place, sampled->token);
    near_tie = sampled->near_tie;
  }
  return sampler.SampleOutside(
      round,
      {.tokens = tokens, .log_weights = log_weights, .near_tie = near_tie});
}

}  // namespace espalier::verifier
