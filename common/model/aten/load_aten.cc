#include "common/model/aten/load_aten.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <c10/core/InferenceMode.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/model/aten/aten_model.h"
#include "common/model/aten/catch_torch.h"
#include "common/model/aten/weight_loader.h"
#include "common/model/files/layer_features.h"
#include "common/model/model_fingerprint.h"
#include "common/model/native/model_limits.h"
#include "common/nn/thread_pool.h"

namespace espalier {
namespace {

absl::Status CheckDevice(const std::string& name) {
  ASSIGN_OR_RETURN(const DeviceName device, ParseDevice(name));
  if (device.is_cpu()) return absl::OkStatus();
  return absl::UnimplementedError(
      "the aten backend runs on the device \"cpu\" only");
}

void SetThreads(int64_t threads) {
  at::set_num_threads(
      static_cast<int>(threads > 0 ? threads : nn::UsableCpus().size()));
  // May be set once per process, before the first use.
  if (at::get_num_interop_threads() != 1) at::set_num_interop_threads(1);
}

absl::StatusOr<std::unique_ptr<Decoder>> LoadDecoder(const ModelConfig& config,
                                                     WeightLoader& weights) {
  switch (config.kind) {
    case DecoderKind::kLlama:
      return LoadLlama(config, weights);
    case DecoderKind::kGpt2:
      return LoadGpt2(config, weights);
  }
  return absl::InternalError("architecture without a decoder");
}

absl::StatusOr<std::unique_ptr<LanguageModel>> Load(
    const ModelOptions& options) {
  ASSIGN_OR_RETURN(ModelConfig config, ReadModelConfig(options.folder));
  RETURN_IF_ERROR(CheckDevice(options.device));
  RETURN_IF_ERROR(CheckFeatures(
      config,
      {LayerFeature::kExperts, LayerFeature::kWindows,
       LayerFeature::kSeveralRotaryTables, LayerFeature::kUnrotatedLayers,
       LayerFeature::kNormsAfter, LayerFeature::kNoNormsBefore,
       LayerFeature::kNormOfAllHeads, LayerFeature::kQueryScalar,
       LayerFeature::kEmbeddingScale, LayerFeature::kScoreSoftcap,
       LayerFeature::kLogitSoftcap, LayerFeature::kUnlikeLayers},
      "the aten backend"));
  const ComputeDType compute_dtype =
      options.compute_dtype.value_or(ComputeDType::kFloat32);
  if (compute_dtype != ComputeDType::kFloat32 &&
      compute_dtype != ComputeDType::kBFloat16) {
    return absl::UnimplementedError(
        absl::StrCat("compute type ", NameOf(compute_dtype),
                     ": libtorch has float32 and bfloat16"));
  }
  const nn::KvType kv_type = DefaultKvType(compute_dtype);
  RETURN_IF_ERROR(CheckKvType(options, kv_type, "libtorch"));
  ASSIGN_OR_RETURN(const WeightFiles files,
                   WeightFiles::Open(options.folder, options.random_weights));
  RETURN_IF_ERROR(CheckLayerCount(config, files));
  SetThreads(options.threads);

  const bool widen = compute_dtype == ComputeDType::kFloat32;
  const at::ScalarType dtype = widen ? at::kFloat : at::kBFloat16;
  const c10::InferenceMode no_autograd;
  WeightLoader weights(files, dtype);
  ASSIGN_OR_RETURN(std::unique_ptr<Decoder> decoder,
                   LoadDecoder(config, weights));

  ModelInfo info = {
      .config = config,
      .device = "cpu",
      .compute_dtype = NameOf(compute_dtype),
      .kv_cache_type = nn::NameOf(kv_type),
      .threads = at::get_num_threads(),
      .weight_bytes = weights.weight_bytes(),
      .backend = "aten",
      .fingerprint = ModelFingerprint(config, files, compute_dtype, kv_type)};
  ASSIGN_OR_RETURN(
      const int64_t pool_tokens,
      SetLimits(options,
                {.head_bytes = 2 * config.head_dim *
                               static_cast<int64_t>(elementSize(dtype)),
                 .groups = {.block_tokens = KvCache::kBlockTokens}},
                info));
  AtenModel::Parts parts = {.info = std::move(info),
                            .decoder = std::move(decoder),
                            .kv_shape = {.num_layers = config.num_layers,
                                         .num_kv_heads = config.num_kv_heads,
                                         .head_dim = config.head_dim,
                                         .dtype = dtype},
                            .kv_pool_tokens = pool_tokens};
  return std::make_unique<AtenModel>(std::move(parts));
}

}  // namespace

bool HasAten() { return true; }

absl::StatusOr<std::unique_ptr<LanguageModel>> LoadAtenModel(
    const ModelOptions& options) {
  return CatchTorch([&] { return Load(options); });
}

}  // namespace espalier
