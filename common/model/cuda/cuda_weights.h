#ifndef ESPALIER_COMMON_MODEL_CUDA_CUDA_WEIGHTS_H_
#define ESPALIER_COMMON_MODEL_CUDA_CUDA_WEIGHTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/cuda/device_array.h"
#include "common/model/compute_dtype.h"
#include "common/model/files/model_config.h"
#include "common/model/files/weight_files.h"
#include "common/nn/thread_pool.h"

namespace espalier {

enum class CudaWeightType {
  kBf16,  // cuda::WeightPlace
  kE4m3,  // cuda::E4m3WeightPlace, and a scale for each output
};

constexpr CudaWeightType CudaWeightTypeOf(ComputeDType dtype) {
  return dtype == ComputeDType::kFp8 ? CudaWeightType::kE4m3
                                     : CudaWeightType::kBf16;
}

// Packed weights of a product on a device. What is missing to whole strips of
// outputs is zero.
struct CudaLinear {
  CudaWeightType type = CudaWeightType::kBf16;
  cuda::DeviceArray<unsigned char> weights = {};
  cuda::DeviceArray<float> scales = {};  // [outputs] of e4m3; size 0: bf16
  cuda::DeviceArray<float> bias = {};    // [outputs]; size 0: none
  int inputs = 0;
  int outputs = 0;
};

// The experts of a layer, one after another.
struct CudaExperts {
  cuda::DeviceArray<float> router;  // [experts, hidden]
  CudaLinear gate_up;               // of each: hidden -> 2 ffn
  CudaLinear down;                  // of each: ffn -> hidden
};

// Size 0: the layer has no such norm, or product.
struct CudaLayer {
  cuda::DeviceArray<float> attention_norm, ffn_norm;          // [hidden]
  cuda::DeviceArray<float> attention_out_norm, ffn_out_norm;  // [hidden]
  cuda::DeviceArray<float> q_norm, k_norm;                    // [head_dim]
  CudaLinear qkv;       // hidden -> (heads + 2 kv_heads) * head_dim
  CudaLinear out;       // heads * head_dim -> hidden
  CudaLinear gate_up;   // hidden -> 2 ffn, gates and values in turns
  CudaLinear down;      // ffn -> hidden
  CudaExperts experts;  // in place of the last two
};

// The weights of a decoder on a device.
struct CudaWeights {
  CudaLinear tokens;  // [vocab, hidden] of bf16; a tied head of bf16 too
  std::vector<CudaLayer> layers;
  cuda::DeviceArray<float> final_norm;
  CudaLinear head;    // no weights: `tokens`
  int64_t bytes = 0;  // on the device

  const CudaLinear& head_or_tokens() const {
    return head.weights.size() > 0 ? head : tokens;
  }
};

// Makes the keys and values of all layers from the same rows.
struct CudaKvProduct {
  CudaLinear product;  // hidden -> [layers][keys, values] of kv_heads heads
  cuda::DeviceArray<float> key_norms;  // [layers, head_dim]; size 0: none
};

class CudaWeightLoader;

// Loads a layer of a Llama, or of a draft head that has such layers. `layer`:
// the prefix of its tensors' names, such as "model.layers.0.". Errors: as
// LoadCudaWeights.
absl::StatusOr<CudaLayer> LoadCudaLayer(const ModelConfig& config,
                                        int64_t index, const std::string& layer,
                                        CudaWeightLoader& loader);
// Loads a layer without the input norm, for heads that compute the input of
// attention (`inputs` numbers) in their own way.
absl::StatusOr<CudaLayer> LoadCudaLayerBehindNorm(const ModelConfig& config,
                                                  int64_t index,
                                                  const std::string& layer,
                                                  int64_t inputs,
                                                  CudaWeightLoader& loader);

// Loads once more, from the same tensors, what makes the keys and values of all
// layers. The names of layer i begin with `layers`, i and ".". REQUIRES: all
// layers have the same page groups, norms and biases.
absl::StatusOr<CudaKvProduct> LoadCudaKv(const ModelConfig& config,
                                         const std::string& layers,
                                         CudaWeightLoader& loader);

// UNIMPLEMENTED names what of the model the kernels do not cover.
absl::Status CheckCudaCovers(const ModelConfig& config);

// The types of a model's products. Its token table is bf16.
struct CudaWeightTypes {
  CudaWeightType layers = CudaWeightType::kBf16;
  CudaWeightType head = CudaWeightType::kBf16;
};

// Packs on the threads of `pool`; the device makes random weights itself.
// NOT_FOUND, INVALID_ARGUMENT: a tensor is missing or has another shape or
// type. RESOURCE_EXHAUSTED: no room on the device. UNAVAILABLE: the device
// failed.
absl::StatusOr<CudaWeights> LoadCudaWeights(const ModelConfig& config,
                                            const WeightFiles& files,
                                            cuda::ComputeDevice& device,
                                            nn::ThreadPool& pool,
                                            const CudaWeightTypes& types);

// By rotary table of the model: [positions, head_dim / 2, 2] cos, sin.
using CudaAngles = std::vector<cuda::DeviceArray<float>>;
// Makes the rotation of so many positions. The errors of the device are those
// of LoadCudaWeights.
absl::StatusOr<CudaAngles> MakeCudaAngles(const ModelConfig& config,
                                          int64_t positions,
                                          cuda::ComputeDevice& device);

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_CUDA_CUDA_WEIGHTS_H_
