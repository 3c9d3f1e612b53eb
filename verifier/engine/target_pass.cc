#include "verifier/engine/target_pass.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "verifier/distributions/pass_distributions.h"
#include "verifier/rules/token_samplers.h"

namespace espalier::verifier {
namespace {

// Returns the tokens that some row allows, as a row.
std::vector<uint32_t> AllowedSomewhere(const grammar::TokenMasks& masks) {
  std::vector<uint32_t> allowed(
      grammar::TokenMasks::WordsOf(masks.vocab_size()));
  for (int64_t row = 0; row < masks.num_rows(); ++row) {
    const absl::Span<const uint32_t> words = masks.Row(row);
    for (size_t i = 0; i < allowed.size(); ++i) allowed[i] |= words[i];
  }
  return allowed;
}

// A part in the form that the model takes: a chain, then the tree.
struct Rows {
  // `first_position`: of the first token that the tree's round emits.
  Rows(const TargetPass::Part& part, int64_t first_position)
      : cache(part.cache),
        tokens(part.prompt.begin(), part.prompt.end()),
        parents(tokens.size()),
        taps(part.taps) {
    std::iota(parents.begin(), parents.end(), kPrefixParent);
    num_logit_rows = part.prompt_logit_rows();
    if (part.ranks != nullptr) ranks.top_k = part.ranks->top;
    if (part.tree == nullptr) return;
    const int32_t root = static_cast<int32_t>(tokens.size());
    use = LogitUseFor(*part.rule, *part.tree, *part.sampling, first_position);
    if (part.is_adjusted() || part.logprobs != LogprobRequest{} ||
        (part.compared && (std::holds_alternative<DrawRequest>(use) ||
                           std::holds_alternative<FilteredDrawRequest>(use)))) {
      use = AnyUse{};
    }
    if (part.masks != nullptr && part.logprobs == LogprobRequest{}) {
      wanted = AllowedSomewhere(*part.masks);
    }
    num_logit_rows += part.tree->num_nodes();
    tokens.insert(tokens.end(), part.tree->tokens.begin(),
                  part.tree->tokens.end());
    parents.push_back(root - 1);  // kPrefixParent if there is no chain
    for (int32_t node = 1; node < part.tree->num_nodes(); ++node) {
      parents.push_back(root + part.tree->parents[node]);
    }
  }

  SequenceRows View() const {
    return {.cache = cache,
            .tokens = tokens,
            .parents = parents,
            .num_logit_rows = num_logit_rows,
            .use = use,
            .ranks = ranks,
            .wanted = wanted,
            .taps = taps};
  }

  CacheId cache;
  std::vector<TokenId> tokens;
  std::vector<int32_t> parents;
  int64_t num_logit_rows = 0;
  LogitUse use;
  RankRequest ranks;
  std::vector<uint32_t> wanted;  // bits, as SequenceRows has them
  absl::Span<const int32_t> taps;
};
static_assert(kPrefixParent == -1, "the root's parent is the row before it");

absl::Status TargetModelError(const absl::Status& status) {
  if (status.ok()) return status;
  const bool is_known =
      absl::IsResourceExhausted(status) || absl::IsUnavailable(status);
  const auto code = is_known ? status.code() : absl::StatusCode::kInternal;
  return absl::Status(code, absl::StrCat("target model: ", status.message()));
}

// Returns the first `count` rows.
std::vector<int32_t> Chain(int64_t count) {
  std::vector<int32_t> rows(count);
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

}  // namespace

int64_t TargetPass::Output::rows() const {
  int64_t rows = 0;
  for (const Part& part : parts) rows += part.rows();
  return rows;
}

bool TargetPass::Output::is_whole_trees() const {
  return std::all_of(parts.begin(), parts.end(), [](const Part& part) {
    return part.prompt.empty() && part.masks == nullptr;
  });
}

absl::StatusOr<TargetPass::Output> TargetPass::Forward(
    std::vector<Part> parts) {
  Output output = {.parts = std::move(parts)};
  std::vector<Rows> rows;
  for (const Part& part : output.parts) {
    rows.emplace_back(part, FirstPosition(part));
  }
  std::vector<SequenceRows> batch;
  int64_t logit_rows = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const TargetPass::Part& part = output.parts[i];
    batch.push_back(rows[i].View());
    output.first_logit_row.push_back(logit_rows + part.prompt_logit_rows());
    output.uses.push_back(rows[i].use);
    logit_rows += rows[i].num_logit_rows;
  }
  output.begin = clock_.Now();
  auto logits = model_.Forward(batch);
  if (!logits.ok()) return TargetModelError(logits.status());
  output.logits = *std::move(logits);
  output.end = clock_.Now();
  output.experts = model_.experts_read();
  return output;
}

absl::Status TargetPass::Keep(const Output& output, size_t index,
                              absl::Span<const int32_t> rows) {
  const Part& part = output.parts[index];
  for (StoredContract& contract : part.stored) {
    const auto added = model_.Store(part.cache, rows, contract.taps);
    if (!added.ok()) return TargetModelError(added.status());
    for (const RingSegment& segment : *added) {
      AppendSegment(segment, contract.segments);
    }
  }
  if (part.features == nullptr) {
    return TargetModelError(model_.Keep(part.cache, rows, {}));
  }
  const int64_t held = part.features->end_position();
  FeatureRows added = {.first_position = model_.Length(part.cache),
                       .width = part.features->width};
  added.data.resize(rows.size() * added.width);
  RETURN_IF_ERROR(TargetModelError(
      model_.Keep(part.cache, rows, absl::MakeSpan(added.data))));
  added.CutBefore(held);
  part.features->Extend(added);
  return absl::OkStatus();
}

absl::Status TargetPass::CommitPrompt(const Output& output, size_t index) {
  const Part& part = output.parts[index];
  ASSIGN_OR_RETURN(const LogprobRows logprobs, PromptLogprobs(output, index));
  AddRanks(output, index);
  RETURN_IF_ERROR(Keep(output, index, Chain(part.prompt_rows())));
  if (part.prompt_logprobs != nullptr) part.prompt_logprobs->Append(logprobs);
  return absl::OkStatus();
}

absl::StatusOr<LogprobRows> TargetPass::PromptLogprobs(const Output& output,
                                                       size_t index) const {
  const Part& part = output.parts[index];
  LogprobRows logprobs;
  if (part.prompt_logprobs == nullptr) return logprobs;
  logprobs.top = part.prompt_logprobs->top;
  const int64_t first = model_.Length(part.cache);
  const int64_t first_row = output.first_logit_row[index] - part.prompt_rows();
  for (int64_t i = 0; i < part.prompt_rows(); ++i) {
    if (first + i < part.prompt_logprobs->size()) continue;  // recomputed K/V
    const absl::Span<const float> row = output.logits->Row(first_row + i);
    RETURN_IF_ERROR(TargetModelError(CheckFinite(row)));
    logprobs.Append(row, part.committed[first + i + 1]);
  }
  return logprobs;
}

absl::StatusOr<LogprobRows> TargetPass::EmittedLogprobs(
    const Output& output, size_t index, const VerifyResult& result) const {
  const Part& part = output.parts[index];
  LogprobRows logprobs;
  if (!part.logprobs.emitted) return logprobs;
  logprobs.top = static_cast<int32_t>(std::min<int64_t>(
      *part.logprobs.emitted, model_.info().config.vocab_size));
  int32_t node = 0;
  for (size_t i = 0; i < result.tokens.size(); ++i) {
    const absl::Span<const float> row =
        output.logits->Row(output.first_logit_row[index] + node);
    RETURN_IF_ERROR(TargetModelError(CheckFinite(row)));
    logprobs.Append(row, result.tokens[i]);
    if (i < result.path.size()) node = result.path[i];
  }
  return logprobs;
}

// A row that is not finite is left out: nobody may need it.
void TargetPass::AddRanks(const Output& output, size_t index) const {
  const Part& part = output.parts[index];
  if (part.ranks == nullptr) return;
  const auto add = [&](int64_t row, TokenId previous, TokenId last) {
    const auto ranking = output.logits->Rank(row, {.top_k = part.ranks->top});
    if (!ranking.ok()) return;
    part.ranks->contexts.insert(part.ranks->contexts.end(), {previous, last});
    for (const RankedToken& token : ranking->top) {
      part.ranks->tokens.push_back(token.token);
      part.ranks->log_probs.push_back(
          static_cast<float>(token.logit - ranking->log_sum_exp));
    }
  };
  const int64_t first_row = output.first_logit_row[index];
  const int64_t end = model_.Length(part.cache) + part.prompt_rows();
  for (int64_t i = -part.ranked_prompt_rows; i < 0; ++i) {
    add(first_row + i, part.committed[end + i - 1], part.committed[end + i]);
  }
  if (part.tree == nullptr) return;
  const TokenTree& tree = *part.tree;
  if (end > 0) add(first_row, part.committed[end - 1], tree.tokens[0]);
  for (int32_t node = 1; node < tree.num_nodes(); ++node) {
    add(first_row + node, tree.tokens[tree.parents[node]], tree.tokens[node]);
  }
}

int64_t TargetPass::FirstPosition(const Part& part) const {
  return model_.Length(part.cache) + part.prompt_rows() + 1;
}

PassDistributions TargetPass::DistributionsOf(const Output& output,
                                              size_t index) {
  const Part& part = output.parts[index];
  return PassDistributions({.tree = *part.tree,
                            .sampling = *part.sampling,
                            .use = output.uses[index],
                            .rows = *output.logits,
                            .first_row = output.first_logit_row[index],
                            .first_position = FirstPosition(part),
                            .adjustments = part.adjustments,
                            .committed = part.committed,
                            .masks = part.masks},
                           transform_);
}

absl::StatusOr<std::vector<RuleLength>> TargetPass::Compare(
    const Output& output, size_t part, RuleComparison& comparison) {
  PassDistributions distributions = DistributionsOf(output, part);
  return comparison.Compare(*output.parts[part].tree, distributions);
}

absl::StatusOr<VerifyResult> TargetPass::CommitTree(const Output& output,
                                                    size_t index) {
  const Part& part = output.parts[index];
  const absl::Time start = clock_.Now();
  PassDistributions distributions = DistributionsOf(output, index);
  GumbelSampler sampler(part.sampling->seed);
  auto accepted = part.rule->Accept(*part.tree, FirstPosition(part),
                                    distributions, sampler);
  if (!accepted.ok()) return TargetModelError(accepted.status());
  VerifyResult verify_result;
  for (int32_t node : accepted->path) {
    verify_result.tokens.push_back(part.tree->tokens[node]);
  }
  verify_result.tokens.push_back(accepted->bonus_token);
  verify_result.path = std::move(accepted->path);
  ASSIGN_OR_RETURN(verify_result.logprobs,
                   EmittedLogprobs(output, index, verify_result));
  ASSIGN_OR_RETURN(const LogprobRows prompt_logprobs,
                   PromptLogprobs(output, index));
  AddRanks(output, index);
  const absl::Time walked = clock_.Now();

  const int32_t root = static_cast<int32_t>(part.prompt_rows());
  std::vector<int32_t> kept = Chain(root + 1);
  for (int32_t node : verify_result.path) kept.push_back(root + node);
  RETURN_IF_ERROR(Keep(output, index, kept));
  if (part.prompt_logprobs != nullptr) {
    part.prompt_logprobs->Append(prompt_logprobs);
  }
  const absl::Time committed = clock_.Now();
  verify_result.near_ties = sampler.near_ties();
  verify_result.timings.accept = walked - start;
  verify_result.timings.commit = committed - walked;
  return verify_result;
}

}  // namespace espalier::verifier
