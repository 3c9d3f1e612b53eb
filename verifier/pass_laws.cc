#include "verifier/pass_laws.h"

#include <variant>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace espalier::verifier {

LogitUse UseOfLaws(const VerificationRule& rule,
                   const SamplingParams& sampling) {
  const DrawRequest draw = {.temperature = sampling.temperature,
                            .seed = sampling.seed};
  const SamplingParams unfiltered = {.temperature = draw.temperature,
                                     .seed = draw.seed};
  if (rule.only_draws() && sampling == unfiltered) return draw;
  return AnyUse{};
}

absl::StatusOr<TargetLaw> PassLaws::LawAt(int32_t node) {
  auto law = Law(node);
  if (law.ok()) return law;
  return absl::Status(
      law.status().code(),
      absl::StrCat("after node ", node, ": ", law.status().message()));
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

}  // namespace espalier::verifier
