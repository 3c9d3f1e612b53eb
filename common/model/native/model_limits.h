#ifndef ESPALIER_COMMON_MODEL_NATIVE_MODEL_LIMITS_H_
#define ESPALIER_COMMON_MODEL_NATIVE_MODEL_LIMITS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/model/language_model.h"
#include "common/model/model_options.h"
#include "common/nn/kv_type.h"

namespace espalier {

// Shared parts of loading, independent of the implementation.

// INVALID_ARGUMENT names the option and its limits.
absl::Status CheckOptions(const ModelOptions& options);

// For a backend that has one type of K/V cache. UNIMPLEMENTED: the options ask
// for another.
absl::Status CheckKvType(const ModelOptions& options, nn::KvType has,
                         absl::string_view backend);

struct DeviceName {
  enum class Kind { kCpu, kCuda, kEmulated } kind = Kind::kCpu;
  int index = 0;  // of a GPU

  bool is_cpu() const { return kind == Kind::kCpu; }
};
// INVALID_ARGUMENT lists the known names.
absl::StatusOr<DeviceName> ParseDevice(const std::string& name);

struct KvElements {
  int64_t head_bytes = 0;  // of a key and a value of one K/V head
  KvGroups groups = {};
  int64_t most_chain_rows = 0;  // of a pass; 0: as many as of any tree
  // The bytes of the pool, unless the options say; 0: half of the memory that
  // the machine has left.
  int64_t default_pool_bytes = 0;
};
// Fills in what follows from the options and info.config: the bytes per token
// of the K/V cache, and the limits of a sequence and of a pass. Returns the
// room of the K/V pool in tokens, whole blocks. Call after the weights are
// loaded. INVALID_ARGUMENT: too few tokens to be of use.
absl::StatusOr<int64_t> SetLimits(const ModelOptions& options,
                                  const KvElements& elements, ModelInfo& info);

// Returns what `options` allow to cache of a pool of `pool_tokens`, in tokens
// of room.
int64_t CachedTokens(const ModelOptions& options, const ModelInfo& info,
                     int64_t pool_tokens);

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_NATIVE_MODEL_LIMITS_H_
