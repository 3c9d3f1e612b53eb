#include "verifier/pass_laws.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "verifier/flow/tree_supports.h"
#include "verifier/law_weights.h"

namespace espalier::verifier {
namespace {

absl::Status AfterNode(int32_t node, const absl::Status& status) {
  return absl::Status(
      status.code(), absl::StrCat("after node ", node, ": ", status.message()));
}

// Calls see(i, place) for every token of `gathered`: place is that of the token
// in the support, or -1. REQUIRES: the support is part of what was gathered.
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

LogitUse UseOfLaws(const VerificationRule& rule, const TokenTree& tree,
                   const SamplingParams& sampling, int64_t first_position) {
  const SamplingParams unfiltered = {.temperature = sampling.temperature,
                                     .seed = sampling.seed};
  if (sampling != unfiltered) return AnyUse{};
  switch (rule.law_use()) {
    case LawUse::kWhole:
      break;
    case LawUse::kOneDraw:
      return DrawRequest{.temperature = sampling.temperature,
                         .seed = sampling.seed};
    case LawUse::kGathered:
      if (sampling.greedy()) break;  // a law of one token
      return GatherRequest{
          .temperature = sampling.temperature,
          .seed = sampling.seed,
          .round = first_position,
          .supports = std::make_shared<RowSupports>(TreeSupports(tree))};
  }
  return AnyUse{};
}

absl::StatusOr<TargetLaw> PassLaws::LawAt(int32_t node) {
  auto law = Law(node);
  if (!law.ok()) return AfterNode(node, law.status());
  return law;
}

absl::StatusOr<TargetLaw> PassLaws::Law(int32_t node) {
  const int64_t row = input_.first_row + node;
  const auto* draw = std::get_if<DrawRequest>(&input_.use);
  if (draw == nullptr) {
    return transform_.Apply(input_.rows.Row(row), input_.sampling);
  }
  ASSIGN_OR_RETURN(
      const DrawnToken drawn,
      input_.rows.Draw(row, *draw, input_.first_position + depths_[node]));
  static constexpr float kCertain = 0;
  drawn_ = drawn.token;
  return TargetLaw{.tokens = {&drawn_, 1},
                   .log_weights = {&kCertain, 1},
                   .near_tie = drawn.near_tie};
}

absl::StatusOr<GatheredRow> PassLaws::GatheredAt(
    int32_t node, const GatherRequest& request) const {
  auto row = input_.rows.Gather(input_.first_row + node, request, node);
  if (!row.ok()) return AfterNode(node, row.status());
  return row;
}

absl::StatusOr<double> PassLaws::Gather(int32_t node,
                                        absl::Span<const TokenId> support,
                                        absl::Span<double> inside) {
  const auto* request = std::get_if<GatherRequest>(&input_.use);
  if (request == nullptr) return TargetLaws::Gather(node, support, inside);
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

// The token that was drawn outside of what was gathered is the only one there
// that the chooser could take, so the law needs no other.
absl::StatusOr<TokenId> PassLaws::DrawOutside(int32_t node,
                                              absl::Span<const TokenId> support,
                                              int64_t round, Chooser& chooser) {
  const auto* request = std::get_if<GatherRequest>(&input_.use);
  if (request == nullptr) {
    return TargetLaws::DrawOutside(node, support, round, chooser);
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
    const auto drawn =
        input_.rows.DrawOutside(input_.first_row + node, *request, node);
    if (!drawn.ok()) return AfterNode(node, drawn.status());
    const auto place =
        std::lower_bound(tokens.begin(), tokens.end(), drawn->token);
    log_weights.insert(log_weights.begin() + (place - tokens.begin()),
                       drawn->log_weight);
    tokens.insert(place, drawn->token);
    near_tie = drawn->near_tie;
  }
  return chooser.DrawOutside(
      round,
      {.tokens = tokens, .log_weights = log_weights, .near_tie = near_tie});
}

}  // namespace espalier::verifier
