#include "coordinator/session/request_plan.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/speculation/prefix_hash.h"
#include "common/speculation/request_errors.h"
#include "coordinator/merge/merge_policies.h"

namespace espalier::coordinator {
namespace {

constexpr char kAuto[] = "auto";

// Default budgets: of a policy that cannot tell which nodes pay, and the
// maximum for a policy that can.
constexpr int64_t kFixedNodes = 15;  // and the root: a full tile of rows
constexpr int64_t kMaxNodesThatPay = 64;

bool Contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

absl::Status UnknownName(absl::string_view field, absl::string_view name,
                         const std::vector<std::string>& known) {
  return FieldError(field, absl::StrCat("unknown \"", name, "\"; known: ",
                                        absl::StrJoin(known, ", ")));
}

absl::Status CheckPrompt(const GenerationRequest& request,
                         const VerifierInfo& verifier) {
  const int64_t length = static_cast<int64_t>(request.prompt.size());
  if (length == 0) return FieldError(request.prompt_field, "empty");
  RETURN_IF_ERROR(
      CheckFitsContext(request.prompt_field, length, verifier.max_context));
  return CheckTokens(request.prompt_field, request.prompt,
                     verifier.model.vocab_size);
}

// REQUIRES: the plan has its stop tokens and max_tokens.
absl::Status PlanAdjustments(const GenerationRequest& request,
                             const RequestScope& scope, RequestPlan& plan) {
  LogitAdjustments& adjustments = plan.session.adjustments;
  adjustments = request.adjustments;
  if (adjustments.grammar.any() && !scope.verifier.supports_grammars) {
    return FieldError(FieldOf(adjustments.grammar.kind),
                      "the verifier was built without structured output");
  }
  adjustments.prompt_length = static_cast<int64_t>(plan.session.prompt.size());
  if (adjustments.min_tokens > plan.session.max_tokens) {
    return FieldError("min_tokens",
                      absl::StrCat(adjustments.min_tokens, " is above the ",
                                   plan.session.max_tokens,
                                   " tokens that max_tokens and the context "
                                   "allow"));
  }
  if (adjustments.min_tokens > 0) {
    std::vector<TokenId>& stops = adjustments.early_stops;
    stops = plan.session.stop_token_ids;
    std::sort(stops.begin(), stops.end());
    stops.erase(std::unique(stops.begin(), stops.end()), stops.end());
  }
  return ValidateLogitAdjustments(adjustments, scope.verifier.model.vocab_size);
}

absl::Status PlanMaxTokens(const GenerationRequest& request,
                           const RequestScope& scope, RequestPlan& plan) {
  const int64_t wanted = request.max_tokens.value_or(scope.defaults.max_tokens);
  if (wanted < 1) {
    return FieldError("max_tokens", absl::StrCat(wanted, " is below 1"));
  }
  const int64_t room =
      scope.verifier.max_context - static_cast<int64_t>(request.prompt.size());
  if (request.max_tokens && wanted > room) {
    plan.warnings.push_back(
        absl::StrCat("max_tokens: ", wanted, " asked for; ", room,
                     " fit the context of ", scope.verifier.max_context,
                     " after a prompt of ", request.prompt.size()));
  }
  plan.session.max_tokens = std::min(wanted, room);
  return absl::OkStatus();
}

int64_t DefaultNodes(const RequestScope& scope, bool adaptive) {
  const int64_t nodes = scope.defaults.max_nodes.value_or(
      adaptive ? kMaxNodesThatPay : kFixedNodes);
  return std::min(nodes, scope.verifier.max_tree_nodes);
}

// REQUIRES: the plan has its policy.
absl::Status PlanBudget(const SpeculationOptions& options,
                        const RequestScope& scope, RequestPlan& plan) {
  const int64_t limit = scope.verifier.max_tree_nodes;
  plan.adaptive =
      plan.policy->ranks_by_acceptance() && !options.max_nodes.has_value();
  const int64_t max_nodes =
      options.max_nodes.value_or(DefaultNodes(scope, plan.adaptive));
  const int64_t max_depth =
      options.max_depth.value_or(scope.defaults.max_depth);
  if (max_nodes < 0 || max_nodes > limit) {
    return FieldError("speculation.max_nodes",
                      absl::StrCat(max_nodes, " is not in 0 .. ", limit));
  }
  if (max_depth < 0) {
    return FieldError("speculation.max_depth",
                      absl::StrCat(max_depth, " is negative"));
  }
  if (options.enabled && max_nodes > 0 && max_depth > 0) {
    plan.budget = {.max_nodes = max_nodes,
                   .max_depth = std::min(max_depth, max_nodes)};
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int>> PlanDrafters(
    const std::vector<std::string>& names,
    const std::vector<std::string>& known) {
  std::vector<int> chosen;
  for (const std::string& name : names) {
    const auto found = std::find(known.begin(), known.end(), name);
    if (found == known.end()) {
      return UnknownName("speculation.drafters", name, known);
    }
    const int index = static_cast<int>(found - known.begin());
    if (std::find(chosen.begin(), chosen.end(), index) != chosen.end()) {
      return FieldError("speculation.drafters",
                        absl::StrCat("\"", name, "\" is named twice"));
    }
    chosen.push_back(index);
  }
  if (names.empty()) {
    for (size_t i = 0; i < known.size(); ++i) chosen.push_back(i);
  }
  return chosen;
}

absl::Status PlanPolicy(const std::string& strategy, const RequestScope& scope,
                        RequestPlan& plan) {
  plan.strategy = strategy == kAuto ? kDefaultMergePolicy : strategy;
  const auto found = scope.policies->find(plan.strategy);
  if (found == scope.policies->end()) {
    std::vector<std::string> known = {kAuto};
    for (const auto& [name, policy] : *scope.policies) known.push_back(name);
    return UnknownName("speculation.strategy", strategy, known);
  }
  plan.policy = found->second.get();
  return absl::OkStatus();
}

absl::Status CheckRule(const std::string& rule, const VerifierInfo& verifier) {
  std::vector<std::string> known = verifier.rules;
  known.insert(known.begin(), kAuto);
  if (!Contains(known, rule)) {
    return UnknownName("speculation.rule", rule, known);
  }
  return absl::OkStatus();
}

absl::Status CheckSharing(const GenerationRequest& request) {
  if (request.cache_salt.size() > kMaxCacheSaltBytes) {
    return FieldError("cache_salt",
                      absl::StrCat(request.cache_salt.size(), " bytes, limit ",
                                   kMaxCacheSaltBytes));
  }
  if (std::abs(request.priority) > kMaxPriority) {
    return FieldError(
        "priority", absl::StrCat(request.priority, " is not in ", -kMaxPriority,
                                 " .. ", kMaxPriority));
  }
  return absl::OkStatus();
}

absl::Status CheckResumed(const ResumedOutput& output, const std::string& field,
                          const RequestPlan& plan) {
  const std::string tokens = absl::StrCat(field, ".token_ids");
  const int64_t size = std::ssize(output.tokens);
  if (size > plan.session.max_tokens) {
    return FieldError(tokens,
                      absl::StrCat(size,
                                   " tokens; max_tokens and the context "
                                   "allow ",
                                   plan.session.max_tokens));
  }
  return CheckTokens(tokens, output.tokens, plan.model.vocab_size);
}

// REQUIRES: the plan has its prompt, model and max_tokens.
absl::Status PlanResumption(GenerationRequest& request, RequestPlan& plan) {
  plan.origin = ExtendPrefixHash(
      plan.model.weights_fingerprint ^ PrefixHash(plan.session.prompt), 0);
  if (request.resumed.empty()) return absl::OkStatus();
  for (size_t i = 0; i < request.resumed.size(); ++i) {
    RETURN_IF_ERROR(CheckResumed(
        request.resumed[i], absl::StrCat("resumption.outputs[", i, "]"), plan));
  }
  if (request.resumed_origin.value_or(plan.origin) != plan.origin) {
    return WithReason(
        absl::FailedPreconditionError(
            "the answer to resume began with another prompt, or with a target "
            "of other weights or compute type"),
        "OTHER_ORIGIN");
  }
  plan.resumed = std::move(request.resumed);
  return absl::OkStatus();
}

// What drafters compute of a text belongs to the target's weights as well: a
// head reads its features. No salt that a client may choose is another
// tenant's: the beginning has a width of its own.
std::string SaltOf(const GenerationRequest& request,
                   const ModelIdentity& target) {
  uint64_t owner = target.weights_fingerprint;
  for (const char c : request.tenant) {
    owner = ExtendPrefixHash(owner, static_cast<unsigned char>(c));
  }
  if (owner == 0) return request.cache_salt;
  return absl::StrCat(absl::Hex(owner, absl::kZeroPad16), " ",
                      request.cache_salt);
}

}  // namespace

absl::Status CheckFitsContext(absl::string_view field, int64_t length,
                              int64_t max_context) {
  if (length < max_context) return absl::OkStatus();
  return FieldError(field, absl::StrCat(length, " tokens; at most ",
                                        max_context - 1, " fit the context of ",
                                        max_context, " with one to follow"));
}

absl::StatusOr<RequestPlan> PlanRequest(GenerationRequest request,
                                        const RequestScope& scope) {
  const VerifierInfo& verifier = scope.verifier;
  const SpeculationOptions& speculation = request.speculation;
  if (request.request_id.empty()) return FieldError("request_id", "empty");
  RETURN_IF_ERROR(CheckPrompt(request, verifier));
  RETURN_IF_ERROR(ValidateSamplingParams(request.sampling));
  RETURN_IF_ERROR(CheckTokens("stop_token_ids", request.stop_token_ids,
                              verifier.model.vocab_size));
  RETURN_IF_ERROR(CheckRule(speculation.rule, verifier));
  RETURN_IF_ERROR(CheckSharing(request));

  RequestPlan plan = {.rule = speculation.rule,
                      .model = verifier.model,
                      .target = verifier.shape,
                      .priority = request.priority};
  RETURN_IF_ERROR(PlanPolicy(speculation.strategy, scope, plan));
  ASSIGN_OR_RETURN(plan.drafters,
                   PlanDrafters(speculation.drafters, scope.drafters));
  RETURN_IF_ERROR(PlanBudget(speculation, scope, plan));
  plan.reads_draft_distributions =
      !request.sampling.greedy() &&
      Contains(verifier.distribution_rules, speculation.rule);
  if (plan.budget.max_nodes == 0) {
    plan.drafters.clear();
    plan.adaptive = false;
    plan.policy = nullptr;
    plan.strategy = kNoStrategy;
  }
  RETURN_IF_ERROR(PlanMaxTokens(request, scope, plan));
  plan.session.prompt = std::move(request.prompt);
  plan.session.sampling = request.sampling;
  plan.session.stop_token_ids = std::move(request.stop_token_ids);
  if (!request.ignore_eos) {
    plan.session.stop_token_ids.insert(plan.session.stop_token_ids.end(),
                                       verifier.eos_token_ids.begin(),
                                       verifier.eos_token_ids.end());
  }
  RETURN_IF_ERROR(PlanAdjustments(request, scope, plan));
  plan.session.cache_salt = SaltOf(request, verifier.model);
  RETURN_IF_ERROR(ValidateLogprobRequest(request.logprobs));
  if (request.logprobs.prompt) {
    RETURN_IF_ERROR(CheckPromptLogprobs(*request.logprobs.prompt,
                                        std::ssize(plan.session.prompt)));
  }
  plan.session.logprobs = request.logprobs;
  RETURN_IF_ERROR(PlanResumption(request, plan));
  plan.session.traceparent = std::move(request.traceparent);
  plan.request_id = std::move(request.request_id);
  plan.tenant = std::move(request.tenant);
  plan.session.new_text = std::move(request.new_text);
  return plan;
}

}  // namespace espalier::coordinator
