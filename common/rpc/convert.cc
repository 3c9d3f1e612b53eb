#include "common/rpc/convert.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/printable.h"
#include "common/base/status_macros.h"

namespace espalier {
namespace {

constexpr uint64_t kMaxInt32 = std::numeric_limits<int32_t>::max();
constexpr uint64_t kMaxInt64 = std::numeric_limits<int64_t>::max();
constexpr uint64_t kMaxUint32 = std::numeric_limits<uint32_t>::max();

// More than any service allows.
constexpr int64_t kMaxTreeNodes = 4096;

// Limits of what peers state about themselves.
constexpr size_t kMaxNameBytes = 128;
constexpr size_t kMaxDeviceBytes = 256;
constexpr int kMaxNames = 256;
constexpr int kMaxStopTokens = 1024;
constexpr int kMaxPassCosts = 1024;

absl::Status CheckAtMost(absl::string_view field, uint64_t value,
                         uint64_t limit) {
  if (value <= limit) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " ", value, " exceeds ", limit));
}

// A peer's text, made printable for logs, pages and clients. One longer than
// `limit` bytes is taken for malicious and refused, not cut.
absl::StatusOr<std::string> Text(absl::string_view field,
                                 const std::string& text, size_t limit) {
  if (text.size() > limit) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, " of ", text.size(), " bytes, limit ", limit));
  }
  return Printable(text, limit);
}

// Converts a column of uint32 to int32.
template <typename Column>
absl::StatusOr<std::vector<int32_t>> Int32Column(absl::string_view field,
                                                 const Column& column) {
  for (uint32_t value : column) {
    RETURN_IF_ERROR(CheckAtMost(field, value, kMaxInt32));
  }
  return std::vector<int32_t>(column.begin(), column.end());
}

uint32_t ClampToUint32(int64_t value) {
  return static_cast<uint32_t>(
      std::clamp<int64_t>(value, 0, static_cast<int64_t>(kMaxUint32)));
}

uint32_t ClampedMicroseconds(absl::Duration duration) {
  return ClampToUint32(absl::ToInt64Microseconds(duration));
}

absl::StatusOr<SamplingParams> SamplingFromProto(
    const v1::SamplingParams& message) {
  RETURN_IF_ERROR(CheckAtMost("top_k", message.top_k(), kMaxInt32));
  const SamplingParams sampling = {
      .temperature = message.temperature(),
      .top_k = static_cast<int32_t>(message.top_k()),
      .top_p = message.top_p(),
      .seed = message.seed()};
  RETURN_IF_ERROR(ValidateSamplingParams(sampling));
  return sampling;
}

void ToProto(const PassCosts& costs,
             google::protobuf::RepeatedPtrField<v1::PassCost>& messages) {
  for (const PassCost& cost : costs) {
    v1::PassCost& message = *messages.Add();
    message.set_rows(ClampToUint32(cost.rows));
    message.set_time_us(ClampedMicroseconds(cost.time));
  }
}

absl::StatusOr<PassCosts> CostsFromProto(
    const google::protobuf::RepeatedPtrField<v1::PassCost>& messages) {
  RETURN_IF_ERROR(
      CheckAtMost("pass_costs: entries", messages.size(), kMaxPassCosts));
  PassCosts costs;
  for (const v1::PassCost& message : messages) {
    const PassCost cost = {.rows = message.rows(),
                           .time = absl::Microseconds(message.time_us())};
    const PassCost before = costs.empty() ? PassCost{} : costs.back();
    if (cost.rows <= before.rows || cost.time < before.time) {
      return absl::InvalidArgumentError(absl::StrCat(
          "pass_costs: ", message.time_us(), " us for ", cost.rows,
          " rows after ", absl::ToInt64Microseconds(before.time), " us for ",
          before.rows, "; rows must ascend and times not fall"));
    }
    costs.push_back(cost);
  }
  return costs;
}

void ToProto(const std::vector<int32_t>& taps,
             google::protobuf::RepeatedField<uint32_t>& after_layers) {
  after_layers.Add(taps.begin(), taps.end());
}

absl::StatusOr<FeatureContract> ContractFromProto(
    const v1::FeatureContract& message) {
  if (message.type() != v1::FEATURE_TYPE_BF16) {
    return absl::InvalidArgumentError(
        absl::StrCat("features: type ", message.type(), " is not known"));
  }
  FeatureContract contract{.taps = {}, .hidden_size = message.hidden_size()};
  ASSIGN_OR_RETURN(contract.taps, Int32Column("features.after_layers",
                                              message.after_layers()));
  return contract;
}

absl::Status ReadSamples(const v1::TokenTree& message, TokenTree& tree) {
  const int n = message.sample_node_size();
  if (message.sample_distribution_size() != n) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tree: columns of unequal length: ", n, " sample_nodes, ",
        message.sample_distribution_size(), " sample_distributions"));
  }
  ASSIGN_OR_RETURN(const std::vector<int32_t> nodes,
                   Int32Column("tree.sample_node", message.sample_node()));
  for (int i = 0; i < n; ++i) {
    tree.samples.push_back(
        {.node = nodes[i], .distribution = message.sample_distribution(i)});
  }
  return absl::OkStatus();
}

// Checks the lengths of the columns before anything is copied.
absl::Status CheckTreeSize(const v1::TokenTree& message) {
  const auto check = [](absl::string_view field, int64_t size, int64_t limit) {
    return CheckAtMost(absl::StrCat("tree: entries of ", field),
                       static_cast<uint64_t>(size),
                       static_cast<uint64_t>(limit));
  };
  RETURN_IF_ERROR(check("token", message.token_size(), kMaxTreeNodes));
  RETURN_IF_ERROR(check("sample_node", message.sample_node_size(),
                        TokenTree::kMaxSamplesPerNode * message.token_size()));
  RETURN_IF_ERROR(check("distribution_token", message.distribution_token_size(),
                        kMaxTreeDistributionTokens));
  RETURN_IF_ERROR(check("distribution_size", message.distribution_size_size(),
                        TokenTree::kMaxSamplesPerNode * message.token_size()));
  for (uint32_t size : message.distribution_size()) {
    RETURN_IF_ERROR(
        CheckAtMost("tree: distribution_size", size, kMaxDistributionTokens));
  }
  return absl::OkStatus();
}

absl::Status ReadDistributions(const v1::TokenTree& message, TokenTree& tree) {
  ASSIGN_OR_RETURN(
      const std::vector<TokenId> tokens,
      Int32Column("tree.distribution_token", message.distribution_token()));
  const absl::Span<const uint32_t> weights(message.distribution_weight().data(),
                                           message.distribution_weight_size());
  uint64_t sizes = 0;
  for (uint32_t size : message.distribution_size()) sizes += size;
  if (sizes != tokens.size() || sizes != weights.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tree: distributions of ", sizes, " tokens in all, but ", tokens.size(),
        " distribution_tokens, ", weights.size(), " distribution_weights"));
  }
  std::vector<SampleDependence> draws(message.distribution_size_size(),
                                      SampleDependence::kIndependent);
  for (uint32_t distribution : message.distribution_without_replacement()) {
    if (distribution >= draws.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("tree.distribution_without_replacement: distribution ",
                       distribution, " of ", draws.size()));
    }
    draws[distribution] = SampleDependence::kWithoutReplacement;
  }
  size_t begin = 0;
  for (size_t i = 0; i < draws.size(); ++i) {
    const size_t size = message.distribution_size(static_cast<int>(i));
    tree.distributions.Add(absl::MakeConstSpan(tokens).subspan(begin, size),
                           weights.subspan(begin, size), draws[i]);
    begin += size;
  }
  return absl::OkStatus();
}

}  // namespace

v1::TokenTree ToProto(const TokenTree& tree) {
  v1::TokenTree message;
  message.mutable_token()->Add(tree.tokens.begin(), tree.tokens.end());
  message.mutable_parent()->Add(tree.parents.begin(), tree.parents.end());
  message.mutable_log_prob()->Add(tree.log_probs.begin(), tree.log_probs.end());
  message.mutable_provenance()->Add(tree.provenance.begin(),
                                    tree.provenance.end());
  for (const DraftSample& sample : tree.samples) {
    message.add_sample_node(sample.node);
    message.add_sample_distribution(sample.distribution);
  }
  for (int32_t i = 0; i < tree.distributions.size(); ++i) {
    const DraftDistribution distribution = tree.distributions[i];
    message.add_distribution_size(
        static_cast<uint32_t>(distribution.tokens.size()));
    message.mutable_distribution_token()->Add(distribution.tokens.begin(),
                                              distribution.tokens.end());
    message.mutable_distribution_weight()->Add(distribution.weights.begin(),
                                               distribution.weights.end());
    if (distribution.draws == SampleDependence::kWithoutReplacement) {
      message.add_distribution_without_replacement(i);
    }
  }
  return message;
}

absl::StatusOr<TokenTree> FromProto(const v1::TokenTree& message) {
  RETURN_IF_ERROR(CheckTreeSize(message));
  const int n = message.token_size();
  if (message.parent_size() != n || message.log_prob_size() != n ||
      (message.provenance_size() != n && message.provenance_size() != 0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tree: columns of unequal length: ", n, " tokens, ",
        message.parent_size(), " parents, ", message.log_prob_size(),
        " log_probs, ", message.provenance_size(), " provenances"));
  }
  TokenTree tree;
  ASSIGN_OR_RETURN(tree.tokens, Int32Column("tree.token", message.token()));
  tree.parents.assign(message.parent().begin(), message.parent().end());
  tree.log_probs.assign(message.log_prob().begin(), message.log_prob().end());
  tree.provenance.assign(message.provenance().begin(),
                         message.provenance().end());
  RETURN_IF_ERROR(ReadSamples(message, tree));
  RETURN_IF_ERROR(ReadDistributions(message, tree));
  return tree;
}

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
  return update;
}

v1::Propose ToProto(const ProposeRequest& request, absl::Duration time_budget) {
  v1::Propose message;
  *message.mutable_update() = ToProto(request.update);
  message.set_max_nodes(ClampToUint32(request.budget.max_nodes));
  message.set_max_depth(ClampToUint32(request.budget.max_depth));
  message.set_time_budget_us(ClampedMicroseconds(time_budget));
  message.mutable_lookahead_tokens()->Add(request.lookahead.begin(),
                                          request.lookahead.end());
  return message;
}

absl::StatusOr<ProposeRequest> FromProto(const v1::Propose& message) {
  ProposeRequest request{.budget = {.max_nodes = message.max_nodes(),
                                    .max_depth = message.max_depth()}};
  ASSIGN_OR_RETURN(request.update, FromProto(message.update()));
  ASSIGN_OR_RETURN(request.lookahead,
                   Int32Column("lookahead_tokens", message.lookahead_tokens()));
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
  return message;
}

absl::StatusOr<Proposal> FromProto(const v1::Proposal& message) {
  RETURN_IF_ERROR(
      CheckAtMost("committed_length", message.committed_length(), kMaxInt64));
  Proposal proposal{
      .round = message.round(),
      .committed_length = static_cast<int64_t>(message.committed_length()),
      .compute_time = absl::Microseconds(message.compute_us())};
  ASSIGN_OR_RETURN(proposal.tree, FromProto(message.tree()));
  return proposal;
}

v1::VerifyTree ToProto(const VerifyRequest& request,
                       absl::Duration time_budget) {
  v1::VerifyTree message;
  *message.mutable_update() = ToProto(request.update);
  *message.mutable_tree() = ToProto(request.tree);
  message.set_rule(request.rule);
  if (!request.features.taps.empty()) {
    v1::FeatureRequest& features = *message.mutable_features();
    ToProto(request.features.taps, *features.mutable_after_layers());
    features.set_first_position(
        static_cast<uint64_t>(request.features.first_position));
  }
  message.set_max_length(static_cast<uint64_t>(request.max_length));
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
  const v1::FeatureRequest& features = message.features();
  ASSIGN_OR_RETURN(request.features.taps, Int32Column("features.after_layers",
                                                      features.after_layers()));
  RETURN_IF_ERROR(CheckAtMost("features.first_position",
                              features.first_position(), kMaxInt32));
  request.features.first_position =
      static_cast<int64_t>(features.first_position());
  RETURN_IF_ERROR(CheckAtMost("max_length", message.max_length(), kMaxInt32));
  request.max_length = static_cast<int64_t>(message.max_length());
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
  message.set_queue_us(ClampedMicroseconds(verify_result.timings.queue));
  message.set_room_us(ClampedMicroseconds(verify_result.timings.room));
  message.set_prefill_us(ClampedMicroseconds(verify_result.timings.prefill));
  message.set_forward_us(ClampedMicroseconds(verify_result.timings.forward));
  message.set_accept_us(ClampedMicroseconds(verify_result.timings.accept));
  message.set_commit_us(ClampedMicroseconds(verify_result.timings.commit));
  ToProto(verify_result.pass_costs, *message.mutable_pass_costs());
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
      .timings = {.queue = absl::Microseconds(message.queue_us()),
                  .room = absl::Microseconds(message.room_us()),
                  .prefill = absl::Microseconds(message.prefill_us()),
                  .forward = absl::Microseconds(message.forward_us()),
                  .accept = absl::Microseconds(message.accept_us()),
                  .commit = absl::Microseconds(message.commit_us())}};
  ASSIGN_OR_RETURN(verify_result.path, Int32Column("path", message.path()));
  ASSIGN_OR_RETURN(verify_result.tokens, Int32Column("token", message.token()));
  ASSIGN_OR_RETURN(verify_result.pass_costs,
                   CostsFromProto(message.pass_costs()));
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

v1::ModelIdentity ToProto(const ModelIdentity& identity) {
  v1::ModelIdentity message;
  message.set_name(identity.name);
  message.set_vocab_size(static_cast<uint64_t>(identity.vocab_size));
  message.set_tokenizer_fingerprint(identity.tokenizer_fingerprint);
  message.set_weights_fingerprint(identity.weights_fingerprint);
  return message;
}

absl::StatusOr<ModelIdentity> FromProto(const v1::ModelIdentity& message) {
  RETURN_IF_ERROR(
      CheckAtMost("model.vocab_size", message.vocab_size(), kMaxInt32));
  ASSIGN_OR_RETURN(std::string name,
                   Text("model.name", message.name(), kMaxNameBytes));
  return ModelIdentity{.name = std::move(name),
                       .vocab_size = static_cast<int64_t>(message.vocab_size()),
                       .tokenizer_fingerprint = message.tokenizer_fingerprint(),
                       .weights_fingerprint = message.weights_fingerprint()};
}

v1::DrafterHello ToProto(const DrafterInfo& info) {
  v1::DrafterHello message;
  message.set_protocol_version(kProtocolVersion);
  message.set_name(info.name);
  message.set_type(info.type);
  *message.mutable_model() = ToProto(info.model);
  message.set_max_nodes(ClampToUint32(info.max_nodes));
  message.set_max_depth(ClampToUint32(info.max_depth));
  message.set_cpu_group(info.cpu_group);
  message.set_supports_lookahead(info.supports_lookahead);
  if (!info.features.taps.empty()) {
    v1::FeatureContract& features = *message.mutable_features();
    ToProto(info.features.taps, *features.mutable_after_layers());
    features.set_hidden_size(ClampToUint32(info.features.hidden_size));
    features.set_type(v1::FEATURE_TYPE_BF16);
  }
  return message;
}

absl::StatusOr<DrafterInfo> FromProto(const v1::DrafterHello& message) {
  DrafterInfo info{.max_nodes = message.max_nodes(),
                   .max_depth = message.max_depth(),
                   .cpu_group = message.cpu_group(),
                   .supports_lookahead = message.supports_lookahead()};
  ASSIGN_OR_RETURN(info.name, Text("name", message.name(), kMaxNameBytes));
  ASSIGN_OR_RETURN(info.type, Text("type", message.type(), kMaxNameBytes));
  ASSIGN_OR_RETURN(info.model, FromProto(message.model()));
  if (message.has_features()) {
    ASSIGN_OR_RETURN(info.features, ContractFromProto(message.features()));
  }
  return info;
}

v1::VerifierHello ToProto(const VerifierInfo& info) {
  v1::VerifierHello message;
  message.set_protocol_version(kProtocolVersion);
  message.set_epoch(info.epoch);
  *message.mutable_model() = ToProto(info.model);
  message.set_max_context(static_cast<uint64_t>(info.max_context));
  message.set_max_tree_nodes(ClampToUint32(info.max_tree_nodes));
  for (const std::string& rule : info.rules) message.add_rules(rule);
  message.mutable_distribution_rules()->Add(info.distribution_rules.begin(),
                                            info.distribution_rules.end());
  message.mutable_eos_token_ids()->Add(info.eos_token_ids.begin(),
                                       info.eos_token_ids.end());
  message.set_device(info.device);
  ToProto(info.pass_costs, *message.mutable_pass_costs());
  message.set_num_layers(ClampToUint32(info.shape.num_layers));
  message.set_hidden_size(ClampToUint32(info.shape.hidden_size));
  message.set_cpu_group(info.cpu_group);
  return message;
}

absl::StatusOr<VerifierInfo> FromProto(const v1::VerifierHello& message) {
  RETURN_IF_ERROR(CheckAtMost("max_context", message.max_context(), kMaxInt32));
  RETURN_IF_ERROR(CheckAtMost("num_layers", message.num_layers(), kMaxInt32));
  VerifierInfo info;
  info.shape = {.num_layers = message.num_layers(),
                .hidden_size = message.hidden_size()};
  info.epoch = message.epoch();
  info.cpu_group = message.cpu_group();
  info.max_context = static_cast<int64_t>(message.max_context());
  info.max_tree_nodes = message.max_tree_nodes();
  RETURN_IF_ERROR(
      CheckAtMost("rules: entries", message.rules_size(), kMaxNames));
  for (const std::string& rule : message.rules()) {
    ASSIGN_OR_RETURN(info.rules.emplace_back(),
                     Text("rules", rule, kMaxNameBytes));
  }
  RETURN_IF_ERROR(CheckAtMost("distribution_rules: entries",
                              message.distribution_rules_size(), kMaxNames));
  for (const std::string& rule : message.distribution_rules()) {
    ASSIGN_OR_RETURN(info.distribution_rules.emplace_back(),
                     Text("distribution_rules", rule, kMaxNameBytes));
  }
  ASSIGN_OR_RETURN(info.device,
                   Text("device", message.device(), kMaxDeviceBytes));
  RETURN_IF_ERROR(CheckAtMost("eos_token_ids: entries",
                              message.eos_token_ids_size(), kMaxStopTokens));
  ASSIGN_OR_RETURN(info.model, FromProto(message.model()));
  ASSIGN_OR_RETURN(info.eos_token_ids,
                   Int32Column("eos_token_ids", message.eos_token_ids()));
  ASSIGN_OR_RETURN(info.pass_costs, CostsFromProto(message.pass_costs()));
  return info;
}

}  // namespace espalier
