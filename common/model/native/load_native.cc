#include <memory>
#include <new>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/available_memory.h"
#include "common/base/status_macros.h"
#include "common/model/model_fingerprint.h"
#include "common/model/native/auto_compute_type.h"
#include "common/model/native/model_limits.h"
#include "common/model/native/native_model.h"
#include "common/model/native/native_weights.h"
#include "common/model/native/weight_memory.h"
#include "common/nn/cpu_backend.h"

namespace espalier {
namespace {

absl::Status CheckCovered(const ModelConfig& config, const DeviceName& device) {
  if (!device.is_cpu()) {
    return absl::UnimplementedError(
        "the native backend runs on the device \"cpu\" only");
  }
  if (config.head_dim % nn::kHeadDimUnit != 0) {
    return absl::UnimplementedError(
        absl::StrCat("head_dim ", config.head_dim, " is not a multiple of ",
                     nn::kHeadDimUnit, ", which the native backend needs"));
  }
  return absl::OkStatus();
}

// Returns the bytes of a key and a value of one position.
int64_t BytesOfHead(nn::KvType type, int64_t head_dim) {
  const int64_t floats = 2 * nn::KvPanelFloats(type, head_dim);
  return floats * static_cast<int64_t>(sizeof(float)) / nn::kPageTokens;
}

absl::StatusOr<std::unique_ptr<LanguageModel>> Load(
    const ModelOptions& options) {
  ASSIGN_OR_RETURN(const ModelConfig config, ReadModelConfig(options.folder));
  ASSIGN_OR_RETURN(const DeviceName device, ParseDevice(options.device));
  RETURN_IF_ERROR(CheckCovered(config, device));
  ASSIGN_OR_RETURN(const nn::Kernels* kernels,
                   nn::FindBackend(options.cpu_kernels));
  ASSIGN_OR_RETURN(const WeightFiles files,
                   WeightFiles::Open(options.folder, options.random_weights));

  RETURN_IF_ERROR(CheckLayerCount(config, files));
  const ComputeDType dtype =
      options.compute_dtype.value_or(AutoComputeType(files.tensors()));
  if (dtype == ComputeDType::kFp8) {
    return absl::UnimplementedError(
        "compute type fp8 needs a GPU (device \"cuda\")");
  }
  RETURN_IF_ERROR(CheckWeightsFit(files.tensors(), dtype, AvailableMemory()));
  const bool exact = dtype == ComputeDType::kFloat32;
  const nn::KvType kv_type =
      options.kv_cache_type.value_or(DefaultKvType(dtype));
  ModelInfo info = {
      .config = config,
      .device = "cpu",
      .compute_dtype = NameOf(dtype),
      .kv_cache_type = NameOf(kv_type),
      .backend = absl::StrCat("native ", kernels->name),
      .fingerprint = ModelFingerprint(config, files, dtype, kv_type)};
  auto pool = std::make_unique<nn::ThreadPool>(
      nn::ThreadPool::Options{.threads = options.threads});
  info.threads = pool->threads();
  ASSIGN_OR_RETURN(std::unique_ptr<NativeWeights> weights,
                   LoadNativeWeights(config, files, dtype, *pool));
  info.weight_bytes = weights->bytes;
  ASSIGN_OR_RETURN(
      const int64_t pool_tokens,
      SetLimits(options,
                {.head_bytes = BytesOfHead(kv_type, config.head_dim),
                 .groups = KvPageShape::Of(config, kv_type).layers.groups},
                info));
  info.shares_kv = true;
  const int64_t cached_tokens = CachedTokens(options, info, pool_tokens);
  auto decoder = std::make_unique<NativeDecoder>(NativeDecoder::Parts{
      .config = config,
      .weights = std::move(weights),
      .kernels = kernels,
      .operand = exact ? kernels->exact_operand : kernels->fast_operand,
      .kv_type = kv_type,
      .pool = std::move(pool)});
  return std::make_unique<NativeModel>(
      NativeModel::Parts{.info = std::move(info),
                         .decoder = std::move(decoder),
                         .kv_type = kv_type,
                         .room = {.total_tokens = pool_tokens,
                                  .max_cached_tokens = cached_tokens}});
}

}  // namespace

absl::StatusOr<std::unique_ptr<LanguageModel>> LoadNativeModel(
    const ModelOptions& options) {
  try {
    return Load(options);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("out of memory");
  }
}

}  // namespace espalier
