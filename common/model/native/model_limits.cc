#include "common/model/native/model_limits.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/base/available_memory.h"
#include "common/base/status_macros.h"

namespace espalier {
namespace {

constexpr int64_t kMaxThreads = 1024;
constexpr int64_t kMaxRows = 4096;
constexpr int64_t kMinPoolTokens = 64;

int64_t PoolBytes(const ModelOptions& options, const KvElements& elements,
                  const ModelInfo& info) {
  if (options.kv_pool_bytes > 0) return options.kv_pool_bytes;
  if (elements.default_pool_bytes > 0) return elements.default_pool_bytes;
  return std::max(AvailableMemory() / 2,
                  kMinPoolTokens * info.kv_bytes_per_token);
}

}  // namespace

absl::Status CheckOptions(const ModelOptions& options) {
  auto check = [](const char* name, int64_t value, int64_t low, int64_t high) {
    if (low <= value && value <= high) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(name, " ", value, " is not in ", low, " .. ", high));
  };
  RETURN_IF_ERROR(check("threads", options.threads, 0, kMaxThreads));
  RETURN_IF_ERROR(check("max_rows", options.max_rows, 1, kMaxRows));
  RETURN_IF_ERROR(check("max_chain_rows", options.max_chain_rows, 1, kMaxRows));
  RETURN_IF_ERROR(check("kv_pool_bytes", options.kv_pool_bytes, 0, INT64_MAX));
  RETURN_IF_ERROR(check("prefix_cache_bytes",
                        options.prefix_cache_bytes.value_or(0), 0, INT64_MAX));
  return check("max_context", options.max_context, 0, INT64_MAX);
}

absl::Status CheckKvType(const ModelOptions& options, nn::KvType has,
                         absl::string_view backend) {
  const nn::KvType wanted = options.kv_cache_type.value_or(has);
  if (wanted == has) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("K/V cache type ", nn::NameOf(wanted), ": ", backend,
                   " has ", nn::NameOf(has), " for this compute type"));
}

absl::StatusOr<DeviceName> ParseDevice(const std::string& name) {
  if (name == "cpu") return DeviceName{};
  if (name == "emulated") {
    return DeviceName{.kind = DeviceName::Kind::kEmulated};
  }
  DeviceName device = {.kind = DeviceName::Kind::kCuda};
  absl::string_view rest = name;
  if (!absl::ConsumePrefix(&rest, "cuda") ||
      (!rest.empty() && (!absl::ConsumePrefix(&rest, ":") ||
                         !absl::SimpleAtoi(rest, &device.index)))) {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown device \"", name,
                     "\"; known: cpu, cuda, cuda:<number>, emulated"));
  }
  return device;
}

absl::StatusOr<int64_t> SetLimits(const ModelOptions& options,
                                  const KvElements& elements, ModelInfo& info) {
  const ModelConfig& config = info.config;
  info.kv_bytes_per_token =
      config.num_layers * config.num_kv_heads * elements.head_bytes;
  info.kv_groups = elements.groups;
  const int64_t bytes = PoolBytes(options, elements, info);
  const int64_t block_bytes = info.kv_bytes_per_token *
                              elements.groups.block_tokens /
                              elements.groups.count();
  const int64_t room = bytes / block_bytes * elements.groups.block_tokens;
  const int64_t tokens = elements.groups.TokensIn(room);
  if (tokens < kMinPoolTokens) {
    return absl::InvalidArgumentError(
        absl::StrCat("kv_pool_bytes ", bytes, " hold ", tokens,
                     " tokens; at least ", kMinPoolTokens, " are needed, of ",
                     info.kv_bytes_per_token, " bytes each"));
  }
  const int64_t chain_rows =
      std::max(options.max_rows,
               std::min(options.max_chain_rows, elements.most_chain_rows));
  info.max_context = std::min(config.max_positions,
                              elements.groups.LongestIn(room, chain_rows));
  if (options.max_context > 0) {
    info.max_context = std::min(info.max_context, options.max_context);
  }
  info.max_rows = std::min(options.max_rows, info.max_context);
  info.max_chain_rows = std::min(chain_rows, info.max_context);
  return room;
}

int64_t CachedTokens(const ModelOptions& options, const ModelInfo& info,
                     int64_t pool_tokens) {
  if (!options.prefix_cache_bytes) return pool_tokens / 4;
  return std::min(*options.prefix_cache_bytes /
                      (info.kv_bytes_per_token / info.kv_groups.count()),
                  pool_tokens);
}

}  // namespace espalier
