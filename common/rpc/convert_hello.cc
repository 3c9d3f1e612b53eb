#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/rpc/convert.h"
#include "common/rpc/convert_fields.h"
#include "common/rpc/convert_ranks.h"

namespace espalier {
namespace {

// Limits of what peers state about themselves.
constexpr size_t kMaxDeviceBytes = 256;
constexpr int kMaxNames = 256;
constexpr int kMaxStopTokens = 1024;

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

}  // namespace

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
  message.set_needs_grammar(info.needs_grammar);
  message.set_device_id(info.device_id);
  if (info.ranks.any()) {
    *message.mutable_ranks() = ToProto(info.ranks);
  }
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
                   .supports_lookahead = message.supports_lookahead(),
                   .needs_grammar = message.needs_grammar(),
                   .device_id = message.device_id()};
  ASSIGN_OR_RETURN(info.name, Text("name", message.name(), kMaxNameBytes));
  ASSIGN_OR_RETURN(info.type, Text("type", message.type(), kMaxNameBytes));
  ASSIGN_OR_RETURN(info.model, FromProto(message.model()));
  if (message.has_features()) {
    ASSIGN_OR_RETURN(info.features, ContractFromProto(message.features()));
  }
  ASSIGN_OR_RETURN(info.ranks, FromProto(message.ranks()));
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
  *message.mutable_memory() = ToProto(info.memory);
  message.set_num_layers(ClampToUint32(info.shape.num_layers));
  message.set_hidden_size(ClampToUint32(info.shape.hidden_size));
  message.set_cpu_group(info.cpu_group);
  message.set_supports_grammars(info.supports_grammars);
  if (info.ring.id != 0) *message.mutable_ring() = ToProto(info.ring);
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
  info.supports_grammars = message.supports_grammars();
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
  ASSIGN_OR_RETURN(info.memory, FromProto(message.memory()));
  ASSIGN_OR_RETURN(info.ring, FromProto(message.ring()));
  return info;
}

}  // namespace espalier
