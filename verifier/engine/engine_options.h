#ifndef ESPALIER_VERIFIER_ENGINE_ENGINE_OPTIONS_H_
#define ESPALIER_VERIFIER_ENGINE_ENGINE_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/model/language_model.h"
#include "common/speculation/messages.h"
#include "common/speculation/pass_cost.h"
#include "common/speculation/types.h"
#include "verifier/costs/cost_upkeep.h"
#include "verifier/costs/tree_routing.h"
#include "verifier/engine/plan_pass.h"
#include "verifier/engine/rule_selection.h"
#include "verifier/engine/tree_masker.h"

namespace espalier::verifier {

// How a VerifyEngine runs.
struct EngineOptions {
  ModelIdentity identity;                // vocab_size is taken from the model
  std::vector<TokenId> end_tokens = {};  // that end a text
  uint64_t cpu_group = 0;                // see VerifierInfo
  uint64_t epoch = 0;  // random, sampled by the caller at start
  int64_t max_sessions = 64;
  int64_t max_tree_nodes = 64;  // root excluded; the model may allow less
  // The most rows of a pass for all sessions together; a single tree may
  // exceed it.
  int64_t max_batch_rows = 64;
  // A pass has these rows while nothing but prompts waits and no tree is
  // expected soon, if that is more.
  int64_t max_prompt_rows = 0;
  // After this long without a request, a session's coordinator is assumed
  // dead.
  absl::Duration session_ttl = absl::Minutes(10);
  PassCosts pass_costs;  // as measured; empty: unknown, none are kept
  TableTrust pass_costs_trust = TableTrust::kUsual;
  std::vector<ExpertsRead> unlike_experts = {};  // see MeasuredCosts
  // Is true if sessions take K/V of equal prefixes from each other, and from
  // earlier ones. Does not change the text.
  bool shares_prefixes = true;
  int64_t max_feature_bytes = int64_t{256} << 20;  // for shared prefixes
  // Null: requests with a grammar are refused. The engine stops it.
  std::shared_ptr<TreeMasker> grammars = nullptr;
  // Share of the rounds with sampled trees, 0 to 1, for which the engine
  // computes what other rules would accept. Does not change the text.
  double compared_rounds = 0;
  // Called once, on the executor, with the reason, when the model's device is
  // lost to this process. From then on every request is UNAVAILABLE.
  std::function<void(const absl::Status&)> on_model_lost = nullptr;
};

// INVALID_ARGUMENT: an option is out of range, or the model has no room.
absl::Status CheckOptions(const EngineOptions& options, const ModelInfo& model);

// REQUIRES: CheckOptions.
PassLimits PassLimitsOf(const EngineOptions& options, const ModelInfo& model);

// Returns the description of an engine, without its pass costs and memory.
VerifierInfo DescribeEngine(const EngineOptions& options,
                            const ModelInfo& target,
                            const RuleSelection& rules);

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_ENGINE_ENGINE_OPTIONS_H_
