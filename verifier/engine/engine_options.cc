#include "verifier/engine/engine_options.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace espalier::verifier {

absl::Status CheckOptions(const EngineOptions& options,
                          const ModelInfo& model) {
  if (options.max_sessions < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_sessions ", options.max_sessions, " is below 1"));
  }
  if (options.max_tree_nodes < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "max_tree_nodes ", options.max_tree_nodes, " is negative"));
  }
  if (options.max_batch_rows < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_batch_rows ", options.max_batch_rows, " is below 1"));
  }
  if (!(options.compared_rounds >= 0 && options.compared_rounds <= 1)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "compared_rounds ", options.compared_rounds, " is not in 0 .. 1"));
  }
  if (options.session_ttl <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError("session_ttl is not above 0");
  }
  if (model.max_rows < 1 || model.max_context < 1) {
    return absl::InvalidArgumentError("the model has room for no token");
  }
  return absl::OkStatus();
}

PassLimits PassLimitsOf(const EngineOptions& options, const ModelInfo& model) {
  return {
      .batch_rows = options.max_batch_rows,
      .prompt_rows = std::max(options.max_batch_rows, options.max_prompt_rows),
      .sequence_rows = model.max_rows,
      .chain_rows = model.max_chain_rows};
}

VerifierInfo DescribeEngine(const EngineOptions& options,
                            const ModelInfo& target,
                            const RuleSelection& rules) {
  VerifierInfo info;
  info.model = options.identity;
  info.model.vocab_size = target.config.vocab_size;
  info.model.weights_fingerprint = target.fingerprint;
  info.cpu_group = options.cpu_group;
  info.epoch = options.epoch;
  info.max_context = target.max_context;
  info.max_tree_nodes = std::min(options.max_tree_nodes, target.max_rows - 1);
  info.rules = rules.names();
  info.distribution_rules = rules.distribution_rules();
  info.eos_token_ids = options.end_tokens;
  info.supports_grammars = options.grammars != nullptr;
  info.shape = {.num_layers = target.config.num_layers,
                .hidden_size = target.config.hidden_size};
  info.ring = target.feature_ring;
  info.device = absl::StrCat(target.device, ", ", target.compute_dtype, ", ",
                             target.threads, " threads, ", target.backend);
  return info;
}

}  // namespace espalier::verifier
