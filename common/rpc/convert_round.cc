#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/rpc/convert.h"
#include "common/rpc/convert_fields.h"
#include "common/rpc/convert_ranks.h"
#include "common/rpc/convert_target.h"
#include "common/speculation/trace_context.h"

namespace espalier {
namespace {

absl::StatusOr<SamplingParams> SamplingFromProto(
    const v1::SamplingParams& message) {
  RETURN_IF_ERROR(CheckAtMost("top_k", message.top_k(), kMaxInt32));
  const SamplingParams sampling = {
      .temperature = message.temperature(),
      .top_k = static_cast<int32_t>(message.top_k()),
      .top_p = message.top_p(),
      .min_p = message.min_p(),
      .typical_p = message.typical_p() == 0 ? 1 : message.typical_p(),
      .seed = message.seed()};
  RETURN_IF_ERROR(ValidateSamplingParams(sampling));
  return sampling;
}

absl::StatusOr<TenantShare> ShareFromProto(const v1::VerifyTree& message) {
  RETURN_IF_ERROR(
      CheckAtMost("tenant", message.tenant().size(), kMaxTenantBytes));
  TenantShare share = {.tenant = message.tenant()};
  const double weight = message.tenant_weight();
  if (!(weight >= 0) || std::isinf(weight)) {
    return absl::InvalidArgumentError(
        absl::StrCat("tenant_weight: ", weight, " is not a weight"));
  }
  if (weight > 0) share.weight = weight;
  return share;
}

}  // namespace

v1::SequenceUpdate ToProto(const SequenceUpdate& update) {
  v1::SequenceUpdate message;
  v1::SessionKey& key = *message.mutable_key();
  key.set_epoch(update.sequence.coordinator_epoch);
  key.set_session_id(update.sequence.number);
  key.set_round(update.round);
  key.set_base_length(static_cast<uint64_t>(update.base_length));
  key.set_prefix_hash(update.prefix_hash);
  message.mutable_new_tokens()->Add(update.new_tokens.begin(),
                                    update.new_tokens.end());
  v1::SamplingParams& sampling = *message.mutable_sampling();
  sampling.set_temperature(update.sampling.temperature);
  sampling.set_top_k(static_cast<uint32_t>(update.sampling.top_k));
  sampling.set_top_p(update.sampling.top_p);
  sampling.set_seed(update.sampling.seed);
  sampling.set_min_p(update.sampling.min_p);
  sampling.set_typical_p(update.sampling.typical_p);
  message.set_cache_salt(update.cache_salt);
  message.set_traceparent(update.traceparent);
  return message;
}

absl::StatusOr<SequenceUpdate> FromProto(const v1::SequenceUpdate& message) {
  if (!message.has_key()) {
    return absl::InvalidArgumentError("update.key is missing");
  }
  if (!message.has_sampling()) {
    return absl::InvalidArgumentError("update.sampling is missing");
  }
  const v1::SessionKey& key = message.key();
  // Positions are int32 in places; no context is near that limit.
  RETURN_IF_ERROR(
      CheckAtMost("update.key.base_length", key.base_length(), kMaxInt32));
  SequenceUpdate update{.sequence = {.coordinator_epoch = key.epoch(),
                                     .number = key.session_id()},
                        .round = key.round(),
                        .base_length = static_cast<int64_t>(key.base_length()),
                        .prefix_hash = key.prefix_hash()};
  ASSIGN_OR_RETURN(update.new_tokens,
                   Int32Column("update.new_tokens", message.new_tokens()));
  ASSIGN_OR_RETURN(update.sampling, SamplingFromProto(message.sampling()));
  RETURN_IF_ERROR(CheckAtMost("update.cache_salt", message.cache_salt().size(),
                              kMaxCacheSaltBytes + kMaxSaltPrefixBytes));
  update.cache_salt = message.cache_salt();
  if (!message.traceparent().empty()) {
    if (!IsTraceparent(message.traceparent())) {
      return absl::InvalidArgumentError("update.traceparent is malformed");
    }
    update.traceparent = message.traceparent();
  }
  return update;
}

v1::Propose ToProto(const ProposeRequest& request, absl::Duration time_budget) {
  v1::Propose message;
  *message.mutable_update() = ToProto(request.update);
  message.set_max_nodes(ClampToUint32(request.budget.max_nodes));
  message.set_max_depth(ClampToUint32(request.budget.max_depth));
  message.set_least_reach(request.budget.least_reach);
  message.set_time_budget_us(ClampedMicroseconds(time_budget));
  message.mutable_lookahead_tokens()->Add(request.lookahead.begin(),
                                          request.lookahead.end());
  if (request.grammar.any()) {
    *message.mutable_grammar() = ToProto(request.grammar);
  }
  message.set_prompt_length(static_cast<uint64_t>(request.prompt_length));
  if (!request.ranks.empty()) {
    *message.mutable_ranks() = ToProto(request.ranks);
  }
  if (!request.stored.empty()) {
    *message.mutable_stored_features() = ToProto(request.stored);
  }
  return message;
}

absl::StatusOr<ProposeRequest> FromProto(const v1::Propose& message) {
  ProposeRequest request{.budget = {.max_nodes = message.max_nodes(),
                                    .max_depth = message.max_depth(),
                                    .least_reach = message.least_reach()}};
  ASSIGN_OR_RETURN(request.update, FromProto(message.update()));
  ASSIGN_OR_RETURN(request.lookahead,
                   Int32Column("lookahead_tokens", message.lookahead_tokens()));
  if (message.has_grammar()) {
    ASSIGN_OR_RETURN(request.grammar, FromProto(message.grammar()));
  }
  RETURN_IF_ERROR(
      CheckAtMost("prompt_length", message.prompt_length(), kMaxInt32));
  request.prompt_length = static_cast<int64_t>(message.prompt_length());
  ASSIGN_OR_RETURN(request.ranks, FromProto(message.ranks()));
  ASSIGN_OR_RETURN(request.stored, FromProto(message.stored_features()));
  return request;
}

absl::Duration TimeBudget(const v1::Propose& message) {
  return absl::Microseconds(message.time_budget_us());
}

v1::Proposal ToProto(const Proposal& proposal) {
  v1::Proposal message;
  message.set_round(proposal.round);
  message.set_committed_length(
      static_cast<uint64_t>(proposal.committed_length));
  *message.mutable_tree() = ToProto(proposal.tree);
  message.set_compute_us(ClampedMicroseconds(proposal.compute_time));
  message.set_lacks_features(proposal.lacks_features);
  message.set_ring_unreadable(proposal.ring_unreadable);
  for (absl::Duration time : proposal.level_times) {
    message.add_level_us(ClampedMicroseconds(time));
  }
  return message;
}

absl::StatusOr<Proposal> FromProto(const v1::Proposal& message) {
  RETURN_IF_ERROR(
      CheckAtMost("committed_length", message.committed_length(), kMaxInt64));
  Proposal proposal{
      .round = message.round(),
      .committed_length = static_cast<int64_t>(message.committed_length()),
      .compute_time = absl::Microseconds(message.compute_us()),
      .lacks_features = message.lacks_features(),
      .ring_unreadable = message.ring_unreadable()};
  ASSIGN_OR_RETURN(proposal.tree, FromProto(message.tree()));
  for (uint32_t microseconds : message.level_us()) {
    proposal.level_times.push_back(absl::Microseconds(microseconds));
  }
  return proposal;
}

v1::VerifyTree ToProto(const VerifyRequest& request,
                       absl::Duration time_budget) {
  v1::VerifyTree message;
  *message.mutable_update() = ToProto(request.update);
  *message.mutable_tree() = ToProto(request.tree);
  message.set_rule(request.rule);
  if (request.features != FeatureRequest{}) {
    *message.mutable_features() = ToProto(request.features);
  }
  message.set_max_length(static_cast<uint64_t>(request.max_length));
  message.set_priority(static_cast<int32_t>(request.priority));
  if (!request.share.tenant.empty()) {
    message.set_tenant(request.share.tenant);
    message.set_tenant_weight(request.share.weight);
  }
  if (request.adjustments.any()) {
    *message.mutable_adjustments() = ToProto(request.adjustments);
  }
  if (request.logprobs != LogprobRequest{}) {
    *message.mutable_logprobs() = ToProto(request.logprobs);
  }
  if (request.ranks.top > 0) {
    *message.mutable_ranks() = ToProto(request.ranks);
  }
  if (time_budget != absl::InfiniteDuration()) {
    // 0 would mean no limit.
    message.set_time_budget_us(static_cast<uint64_t>(
        std::max<int64_t>(1, absl::ToInt64Microseconds(time_budget))));
  }
  return message;
}

absl::StatusOr<VerifyRequest> FromProto(const v1::VerifyTree& message) {
  VerifyRequest request;
  ASSIGN_OR_RETURN(request.update, FromProto(message.update()));
  ASSIGN_OR_RETURN(request.tree, FromProto(message.tree()));
  ASSIGN_OR_RETURN(request.rule, Text("rule", message.rule(), kMaxNameBytes));
  ASSIGN_OR_RETURN(request.features, FromProto(message.features()));
  RETURN_IF_ERROR(CheckAtMost("max_length", message.max_length(), kMaxInt32));
  request.max_length = static_cast<int64_t>(message.max_length());
  request.priority =
      std::clamp(int64_t{message.priority()}, -kMaxPriority, kMaxPriority);
  ASSIGN_OR_RETURN(request.share, ShareFromProto(message));
  if (message.has_adjustments()) {
    ASSIGN_OR_RETURN(request.adjustments, FromProto(message.adjustments()));
  }
  ASSIGN_OR_RETURN(request.logprobs, FromProto(message.logprobs()));
  ASSIGN_OR_RETURN(request.ranks, FromProto(message.ranks()));
  return request;
}

absl::Duration TimeBudget(const v1::VerifyTree& message) {
  if (message.time_budget_us() == 0) return absl::InfiniteDuration();
  return absl::Microseconds(std::min(message.time_budget_us(), kMaxInt64));
}

v1::VerifyResult ToProto(const VerifyResult& verify_result) {
  v1::VerifyResult message;
  message.set_round(verify_result.round);
  message.mutable_path()->Add(verify_result.path.begin(),
                              verify_result.path.end());
  message.mutable_token()->Add(verify_result.tokens.begin(),
                               verify_result.tokens.end());
  message.set_rule(verify_result.rule);
  message.set_near_ties(ClampToUint32(verify_result.near_ties));
  message.set_cached_tokens(ClampToUint32(verify_result.cached_tokens));
  message.set_queue_us(ClampedMicroseconds(verify_result.timings.queue));
  message.set_room_us(ClampedMicroseconds(verify_result.timings.room));
  message.set_measuring_us(
      ClampedMicroseconds(verify_result.timings.measuring));
  message.set_prefill_us(ClampedMicroseconds(verify_result.timings.prefill));
  message.set_forward_us(ClampedMicroseconds(verify_result.timings.forward));
  message.set_accept_us(ClampedMicroseconds(verify_result.timings.accept));
  message.set_commit_us(ClampedMicroseconds(verify_result.timings.commit));
  ToProto(verify_result.pass_costs, *message.mutable_pass_costs());
  *message.mutable_memory() = ToProto(verify_result.memory);
  if (verify_result.stored.ring_id != 0) {
    *message.mutable_stored() = ToProto(verify_result.stored);
  }
  if (verify_result.logprobs.size() > 0) {
    *message.mutable_logprobs() = ToProto(verify_result.logprobs);
  }
  if (verify_result.prompt_logprobs.size() > 0) {
    *message.mutable_prompt_logprobs() = ToProto(verify_result.prompt_logprobs);
  }
  if (!verify_result.ranks.empty()) {
    *message.mutable_ranks() = ToProto(verify_result.ranks);
  }
  return message;
}

absl::StatusOr<VerifyResult> FromProto(const v1::VerifyResult& message) {
  if (message.token_size() != message.path_size() + 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "verify_result: ", message.token_size(), " tokens for a path of ",
        message.path_size(), "; it takes one more"));
  }
  RETURN_IF_ERROR(CheckAtMost("near_ties", message.near_ties(), kMaxInt32));
  ASSIGN_OR_RETURN(std::string rule,
                   Text("rule", message.rule(), kMaxNameBytes));
  VerifyResult verify_result{
      .round = message.round(),
      .rule = std::move(rule),
      .near_ties = static_cast<int32_t>(message.near_ties()),
      .cached_tokens = message.cached_tokens(),
      .timings = {.queue = absl::Microseconds(message.queue_us()),
                  .room = absl::Microseconds(message.room_us()),
                  .measuring = absl::Microseconds(message.measuring_us()),
                  .prefill = absl::Microseconds(message.prefill_us()),
                  .forward = absl::Microseconds(message.forward_us()),
                  .accept = absl::Microseconds(message.accept_us()),
                  .commit = absl::Microseconds(message.commit_us())}};
  ASSIGN_OR_RETURN(verify_result.path, Int32Column("path", message.path()));
  ASSIGN_OR_RETURN(verify_result.tokens, Int32Column("token", message.token()));
  ASSIGN_OR_RETURN(verify_result.pass_costs,
                   CostsFromProto(message.pass_costs()));
  ASSIGN_OR_RETURN(verify_result.memory, FromProto(message.memory()));
  ASSIGN_OR_RETURN(verify_result.stored, FromProto(message.stored()));
  ASSIGN_OR_RETURN(verify_result.logprobs, FromProto(message.logprobs()));
  ASSIGN_OR_RETURN(verify_result.prompt_logprobs,
                   FromProto(message.prompt_logprobs()));
  ASSIGN_OR_RETURN(verify_result.ranks, FromProto(message.ranks()));
  return verify_result;
}

v1::EndSequence ToProto(SequenceId sequence) {
  v1::EndSequence message;
  message.set_epoch(sequence.coordinator_epoch);
  message.set_session_id(sequence.number);
  return message;
}

SequenceId FromProto(const v1::EndSequence& message) {
  return {.coordinator_epoch = message.epoch(), .number = message.session_id()};
}

}  // namespace espalier
