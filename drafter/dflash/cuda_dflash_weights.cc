#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/model/cuda/cuda_weight_loader.h"
#include "common/model/files/layer_features.h"
#include "drafter/dflash/cuda_dflash_model.h"
#include "drafter/dflash/dflash_weights.h"

namespace espalier::drafter {
namespace {

absl::Status LoadLayers(const std::string& prefix, CudaWeightLoader& loader,
                        CudaDflash& drafter) {
  const ModelConfig& layers = drafter.config.layers;
  CudaWeights& weights = drafter.network.weights;
  ASSIGN_OR_RETURN(
      drafter.fc,
      loader.Linear({{prefix + "fc", layers.hidden_size}},
                    drafter.config.features().width(), /*has_bias=*/false));
  ASSIGN_OR_RETURN(
      drafter.context_norm,
      loader.Vectors({{prefix + "hidden_norm.weight", layers.hidden_size}}));
  for (int64_t i = 0; i < layers.num_layers; ++i) {
    ASSIGN_OR_RETURN(
        CudaLayer layer,
        LoadCudaLayer(layers, i, absl::StrCat(prefix, "layers.", i, "."),
                      loader));
    weights.layers.push_back(std::move(layer));
  }
  ASSIGN_OR_RETURN(drafter.context_kv,
                   LoadCudaKv(layers, prefix + "layers.", loader));
  ASSIGN_OR_RETURN(
      weights.final_norm,
      loader.Vectors({{prefix + "norm.weight", layers.hidden_size}}));
  return absl::OkStatus();
}

// Loads the embedding of any token, and the head's rows of the draft
// vocabulary. `head`: the type of these.
absl::Status LoadTables(const HeadTarget& target,
                        const DraftVocabulary& vocabulary, CudaWeightType head,
                        CudaWeightLoader& loader, CudaWeights& weights) {
  const auto name = [](absl::string_view tensor) {
    return std::string(absl::StripSuffix(tensor, ".weight"));
  };
  const int64_t vocab = target.config.vocab_size;
  const int64_t hidden = target.config.hidden_size;
  ASSIGN_OR_RETURN(weights.tokens,
                   loader.Vocabulary({name(target.embedding()), vocab}, hidden,
                                     CudaWeightType::kBf16));
  if (vocabulary.size() == vocab) {
    if (target.config.tied_head && head == weights.tokens.type) {
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(
        weights.head,
        loader.Vocabulary({name(target.output_rows()), vocab}, hidden, head));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(
      weights.head,
      loader.Rows(
          {.name = name(target.output_rows()), .rows = vocab, .inputs = hidden},
          vocabulary.tokens(), head));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CudaDflash> LoadCudaDflash(
    const std::string& folder, const HeadTarget& target,
    const HeadRuntime& runtime, std::shared_ptr<cuda::ComputeDevice> device) {
  ASSIGN_OR_RETURN(const DflashConfig config, ReadDflashConfig(folder, target));
  RETURN_IF_ERROR(CheckCudaCovers(config.layers));
  RETURN_IF_ERROR(
      CheckFeatures(config.layers, /*has=*/{}, "a block drafter on a GPU"));
  ASSIGN_OR_RETURN(const WeightFiles files,
                   OpenDflash(folder, config, runtime.random_weights));
  ASSIGN_OR_RETURN(DraftVocabulary vocabulary,
                   LoadDflashVocabulary(config, files));
  CudaDflash drafter = {.config = config,
                        .network = {.device = device, .config = config.layers},
                        .shares = runtime.prefix_cache_bytes > 0};
  {
    CudaWeightLoader own(files, *device, *runtime.pool,
                         CudaWeightTypeOf(runtime.dtype));
    CudaWeightLoader shared(target.files, *device, *runtime.pool,
                            CudaWeightTypeOf(runtime.dtype));
    if (vocabulary.size() < config.layers.vocab_size) own.Ignore("d2t");
    RETURN_IF_ERROR(
        LoadLayers(own.Has("model.fc.weight") ? "model." : "", own, drafter));
    RETURN_IF_ERROR(own.CheckAllRead());
    RETURN_IF_ERROR(LoadTables(target, vocabulary,
                               CudaWeightTypeOf(runtime.dtype), shared,
                               drafter.network.weights));
    RETURN_IF_ERROR(device->Wait(device->Record()));
  }
  RETURN_IF_ERROR(drafter.network.Finish(std::move(vocabulary),
                                         target.config.max_positions,
                                         DeviceRoom(runtime, config.layers)));
  return drafter;
}

}  // namespace espalier::drafter
