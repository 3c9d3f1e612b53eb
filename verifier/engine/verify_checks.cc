#include "verifier/engine/verify_checks.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/speculation/prefix_hash.h"
#include "common/speculation/request_errors.h"
#include "common/speculation/stale_base.h"

namespace espalier::verifier {
namespace {

absl::Status CheckUpdate(const SequenceUpdate& update,
                         const VerifyLimits& limits) {
  if (update.base_length < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("base_length ", update.base_length, " is negative"));
  }
  const int64_t new_length = static_cast<int64_t>(update.new_tokens.size());
  // Subtracted, because the sum of hostile lengths could overflow.
  if (update.base_length > limits.max_context - new_length) {
    return absl::OutOfRangeError(
        absl::StrCat(update.base_length, " + ", new_length,
                     " committed tokens, max_context is ", limits.max_context));
  }
  if (update.committed_length() == 0) {
    return absl::InvalidArgumentError(
        "no committed tokens: nothing to continue");
  }
  if (update.base_length == 0 && update.prefix_hash != kEmptyPrefixHash) {
    return absl::InvalidArgumentError(
        "prefix_hash with base_length 0 is not the hash of no tokens");
  }
  RETURN_IF_ERROR(
      CheckTokens("new_tokens", update.new_tokens, limits.vocab_size));
  return ValidateSamplingParams(update.sampling);
}

absl::Status CheckStore(absl::Span<const std::vector<int32_t>> contracts,
                        const TargetShape& shape) {
  if (std::ssize(contracts) > kMaxStoreContracts) {
    return absl::InvalidArgumentError(
        absl::StrCat("features.store: ", contracts.size(),
                     " contracts are more than ", kMaxStoreContracts));
  }
  for (const std::vector<int32_t>& taps : contracts) {
    if (!taps.empty() &&
        shape.Serves({.taps = taps, .hidden_size = shape.hidden_size})) {
      continue;
    }
    return absl::InvalidArgumentError(
        absl::StrCat("features.store.contracts: after_layers ",
                     absl::StrJoin(taps, ", "), " are none of the model's"));
  }
  return absl::OkStatus();
}

absl::Status CheckFeatures(const FeatureRequest& features,
                           const TargetShape& shape) {
  if (features.first_position < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "features: first_position ", features.first_position, " is negative"));
  }
  if (shape.Serves({.taps = features.taps, .hidden_size = shape.hidden_size})) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "features: after_layers ", absl::StrJoin(features.taps, ", "),
      ": they ascend from 0 to at most ", NormedTap(shape.num_layers), ", ",
      kMaxFeatureWidth / std::max<int64_t>(1, shape.hidden_size),
      " of them at most"));
}

}  // namespace

absl::Status CheckVerifyRequest(const VerifyRequest& request,
                                const VerifyLimits& limits) {
  RETURN_IF_ERROR(CheckUpdate(request.update, limits));
  RETURN_IF_ERROR(
      ValidateLogitAdjustments(request.adjustments, limits.vocab_size));
  RETURN_IF_ERROR(ValidateLogprobRequest(request.logprobs));
  if (request.logprobs.prompt) {
    RETURN_IF_ERROR(CheckPromptLogprobs(*request.logprobs.prompt,
                                        request.update.committed_length()));
  }
  RETURN_IF_ERROR(CheckFeatures(request.features, limits.shape));
  RETURN_IF_ERROR(CheckStore(request.features.store, limits.shape));
  RETURN_IF_ERROR(CheckRanksRequest(request.ranks));
  return request.tree.Validate({.max_nodes = limits.max_tree_nodes,
                                .max_depth = limits.max_tree_nodes,
                                .vocab_size = limits.vocab_size});
}

absl::Status CheckBase(absl::Span<const TokenId> held,
                       const SequenceUpdate& update) {
  const int64_t held_length = static_cast<int64_t>(held.size());
  if (update.base_length > held_length) {
    return StaleBaseError(held_length, update.base_length);
  }
  if (PrefixHash(held.first(update.base_length)) != update.prefix_hash) {
    return StaleBaseError(0, update.base_length);
  }
  return absl::OkStatus();
}

absl::Status CheckRoot(absl::Span<const TokenId> held,
                       const VerifyRequest& request) {
  const SequenceUpdate& update = request.update;
  const TokenId last = update.new_tokens.empty() ? held[update.base_length - 1]
                                                 : update.new_tokens.back();
  if (request.tree.tokens[0] == last) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("draft tree: root token ", request.tree.tokens[0],
                   " is not the last committed token ", last));
}

bool AskTheSame(const VerifyRequest& a, const VerifyRequest& b) {
  return a.update.base_length == b.update.base_length &&
         a.update.prefix_hash == b.update.prefix_hash &&
         a.update.new_tokens == b.update.new_tokens &&
         a.update.sampling == b.update.sampling &&
         a.adjustments == b.adjustments && a.logprobs == b.logprobs &&
         a.tree.tokens == b.tree.tokens && a.tree.parents == b.tree.parents &&
         a.tree.samples == b.tree.samples &&
         a.tree.distributions == b.tree.distributions && a.rule == b.rule &&
         a.features == b.features;
}

}  // namespace espalier::verifier
