#include "coordinator/coordinator_config.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/available_memory.h"
#include "common/base/status_macros.h"

namespace espalier::coordinator {
namespace {

struct Limit {
  absl::string_view field;
  uint32_t min = 0;
  uint32_t max = 0;
};

absl::Status CheckLimit(const Limit& limit, uint32_t value) {
  if (value >= limit.min && value <= limit.max) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("core.", limit.field, ": ",
                                                 value, " is not in ",
                                                 limit.min, " .. ", limit.max));
}

absl::StatusOr<int64_t> FeatureCacheBytes(
    const v1::CoordinatorCoreConfig& config) {
  constexpr int64_t kMin = int64_t{512} << 20;
  if (!config.has_feature_cache_mib()) {
    return std::max(kMin, AvailableMemory() / 4);
  }
  RETURN_IF_ERROR(CheckLimit({"feature_cache_mib", 64, 1 << 20},
                             config.feature_cache_mib()));
  return int64_t{config.feature_cache_mib()} << 20;
}

}  // namespace

v1::ServerConfig AdminServerConfig(absl::Span<const std::string> addresses,
                                   const v1::AdminConfig& config) {
  v1::ServerConfig server;
  server.mutable_listen()->Add(addresses.begin(), addresses.end());
  *server.mutable_tls() = config.tls();
  server.set_insecure(config.insecure());
  server.set_socket_mode(config.socket_mode());
  server.set_socket_group(config.socket_group());
  server.set_roles_file(config.roles_file());
  return server;
}

AccessGate::Rules AdminRules(const v1::AdminConfig& config) {
  return {.roles_file = config.roles_file(),
          .certificate_name =
              config.tls().client_ca_file().empty() ? "" : "operator"};
}

absl::StatusOr<int64_t> MaxPromptBytes(
    const v1::CoordinatorCoreConfig& config) {
  if (!config.has_max_prompt_kib()) return int64_t{4} << 20;
  RETURN_IF_ERROR(
      CheckLimit({"max_prompt_kib", 1, 1 << 20}, config.max_prompt_kib()));
  return int64_t{config.max_prompt_kib()} << 10;
}

absl::StatusOr<PriorityLimits> PriorityLimitsFromConfig(
    const v1::CoordinatorCoreConfig& config) {
  PriorityLimits limits = {.network = config.min_priority()};
  limits.unix_socket = config.has_min_priority_unix()
                           ? config.min_priority_unix()
                           : limits.network;
  for (const int64_t least : {limits.network, limits.unix_socket}) {
    if (std::abs(least) <= kMaxPriority) continue;
    return absl::InvalidArgumentError(absl::StrCat("core.min_priority: ", least,
                                                   " is not in ", -kMaxPriority,
                                                   " .. ", kMaxPriority));
  }
  return limits;
}

absl::StatusOr<Tracing> TracingFromConfig(const v1::TracingConfig& config,
                                          SpanSink* sink) {
  Tracing tracing = {.sink = sink};
  if (config.has_requests()) tracing.requests = config.requests();
  if (config.has_rounds()) tracing.rounds = config.rounds();
  for (const auto& [field, share] : {std::pair("requests", tracing.requests),
                                     std::pair("rounds", tracing.rounds)}) {
    if (share >= 0 && share <= 1) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "server.tracing.", field, ": ", share, " is not in 0 .. 1"));
  }
  return tracing;
}

absl::StatusOr<Coordinator::Options> OptionsFromConfig(
    const v1::CoordinatorCoreConfig& config) {
  if (config.tenant_metadata() && config.tenants_file().empty()) {
    return absl::InvalidArgumentError(
        "core.tenant_metadata: needs the list of core.tenants_file");
  }
  Coordinator::Options options;
  if (config.has_max_running_requests()) {
    RETURN_IF_ERROR(CheckLimit({"max_running_requests", 1, 4096},
                               config.max_running_requests()));
    options.max_sessions = config.max_running_requests();
  }
  if (config.has_max_queued_requests()) {
    RETURN_IF_ERROR(CheckLimit({"max_queued_requests", 0, 1 << 20},
                               config.max_queued_requests()));
    options.max_queued = config.max_queued_requests();
  }
  if (config.has_draft_timeout_ms()) {
    RETURN_IF_ERROR(
        CheckLimit({"draft_timeout_ms", 1, 60000}, config.draft_timeout_ms()));
    options.draft_timeout = absl::Milliseconds(config.draft_timeout_ms());
  }
  if (config.has_draft_ahead()) options.draft_ahead = config.draft_ahead();
  options.log_requests = config.log_requests();
  if (config.has_pace_ms()) {
    RETURN_IF_ERROR(CheckLimit({"pace_ms", 1, 10000}, config.pace_ms()));
    options.pace = absl::Milliseconds(config.pace_ms());
  }
  if (config.has_max_nodes()) {
    RETURN_IF_ERROR(CheckLimit({"max_nodes", 0, 1024}, config.max_nodes()));
    options.defaults.max_nodes = config.max_nodes();
  }
  if (config.has_max_depth()) {
    RETURN_IF_ERROR(CheckLimit({"max_depth", 0, 1024}, config.max_depth()));
    options.defaults.max_depth = config.max_depth();
  }
  if (config.has_max_request_seconds()) {
    RETURN_IF_ERROR(CheckLimit({"max_request_seconds", 1, 1 << 20},
                               config.max_request_seconds()));
    options.max_request_duration = absl::Seconds(config.max_request_seconds());
  }
  if (config.has_max_verifier_wait_seconds()) {
    RETURN_IF_ERROR(CheckLimit({"max_verifier_wait_seconds", 0, 86400},
                               config.max_verifier_wait_seconds()));
    options.verifier_retry.most_away =
        absl::Seconds(config.max_verifier_wait_seconds());
  }
  ASSIGN_OR_RETURN(options.feature_limits.all_bytes, FeatureCacheBytes(config));
  return options;
}

}  // namespace espalier::coordinator
