#include "drafter/lm/cuda_lm_model.h"

#include "common/base/status_macros.h"
#include "drafter/heads/draft_vocabulary.h"

namespace espalier::drafter {

void CudaLmModel::Launch(const CudaPass& pass, const Places& places) {
  decoder().LaunchLayers(pass, places.target);
  cuda::TakeRowsArgs out = decoder().StreamAfter(config().num_layers - 1, pass);
  out.weight = weights().final_norm.data();
  out.epsilon = epsilon();
  out.normed = places.outputs;
  out.to_rows = places.to_rows;
  device().Launch(out);
}

absl::StatusOr<LoadedLm> LoadLmOnGpu(
    const LmOptions& options, const HeadRuntime& runtime,
    std::shared_ptr<cuda::ComputeDevice> device) {
  CudaNetwork network = {.device = std::move(device)};
  ASSIGN_OR_RETURN(LmFiles files, OpenLm(options, runtime.random_weights));
  network.config = std::move(files.config);
  RETURN_IF_ERROR(CheckCudaCovers(network.config));
  ASSIGN_OR_RETURN(network.weights,
                   LoadCudaWeights(network.config, files.weights,
                                   *network.device, *runtime.pool,
                                   {.layers = CudaWeightTypeOf(runtime.dtype),
                                    .head = CudaWeightTypeOf(runtime.dtype)}));
  RETURN_IF_ERROR(
      network.Finish(DraftVocabulary::Full(network.config.vocab_size),
                     network.config.max_positions,
                     DeviceRoom(runtime, network.config, options.kv_tokens)));
  LoadedLm loaded = {.max_positions = network.config.max_positions,
                     .vocab_size = network.config.vocab_size};
  loaded.model = std::make_unique<CudaLmModel>(std::move(network));
  return loaded;
}

}  // namespace espalier::drafter
