#include "verifier/tree_pass.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "verifier/choosers.h"
#include "verifier/pass_laws.h"

namespace espalier::verifier {

absl::Status TargetModelError(const absl::Status& status) {
  if (status.ok()) return status;
  const auto code = status.code() == absl::StatusCode::kResourceExhausted
                        ? status.code()
                        : absl::StatusCode::kInternal;
  return absl::Status(code, absl::StrCat("target model: ", status.message()));
}

absl::StatusOr<Verdict> TreePass::Run(const Input& input) {
  const TokenTree& tree = input.tree;
  const LogitUse use = UseOfLaws(input.rule, input.sampling);
  const SequenceRows rows = {.cache = input.cache,
                             .tokens = tree.tokens,
                             .parents = tree.parents,
                             .num_logit_rows = tree.num_nodes(),
                             .use = use};
  const int64_t root_position = model_.Length(input.cache);
  const absl::Time start = clock_.Now();
  auto logits = model_.Forward({&rows, 1});
  if (!logits.ok()) return TargetModelError(logits.status());
  const absl::Time forwarded = clock_.Now();

  const int64_t first_position = root_position + 1;
  PassLaws laws({.tree = tree,
                 .sampling = input.sampling,
                 .use = use,
                 .rows = **logits,
                 .first_position = first_position},
                transform_);
  GumbelChooser chooser(input.sampling.seed);
  auto accepted = input.rule.Accept(tree, first_position, laws, chooser);
  if (!accepted.ok()) return TargetModelError(accepted.status());
  const absl::Time walked = clock_.Now();

  std::vector<int32_t> kept = {0};
  kept.insert(kept.end(), accepted->path.begin(), accepted->path.end());
  RETURN_IF_ERROR(TargetModelError(model_.Keep(input.cache, kept)));
  const absl::Time committed = clock_.Now();

  Verdict verdict;
  for (int32_t node : accepted->path) {
    verdict.tokens.push_back(tree.tokens[node]);
  }
  verdict.tokens.push_back(accepted->bonus_token);
  verdict.path = std::move(accepted->path);
  verdict.near_ties = chooser.near_ties();
  verdict.timings.forward = forwarded - start;
  verdict.timings.accept = walked - forwarded;
  verdict.timings.commit = committed - walked;
  return verdict;
}

}  // namespace espalier::verifier
