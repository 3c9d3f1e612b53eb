#ifndef ESPALIER_COMMON_MODEL_NATIVE_NATIVE_DECODER_H_
#define ESPALIER_COMMON_MODEL_NATIVE_NATIVE_DECODER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "common/model/files/model_config.h"
#include "common/model/native/native_layers.h"
#include "common/model/native/native_pass.h"
#include "common/model/native/native_weights.h"
#include "common/nn/kernels.h"
#include "common/nn/thread_pool.h"

namespace espalier {

// The pass through a decoder on the kernels of one CPU backend. Activations
// are float32. One thread, the engine's, calls it.
class NativeDecoder {
 public:
  struct Parts {
    ModelConfig config;
    std::unique_ptr<const NativeWeights> weights;
    const nn::Kernels* kernels = nullptr;
    nn::OperandType operand = nn::OperandType::kFloat32;  // of the kernels
    nn::KvType kv_type = nn::KvType::kFloat32;
    std::unique_ptr<nn::ThreadPool> pool;
  };

  explicit NativeDecoder(Parts parts);

  // Puts the K/V of all rows into their caches, gives the logits of the wanted
  // rows to the pass's reductions, and writes the features that are wanted.
  void Run(const NativePass& pass);

  // For further computation on features.
  NativeLayers& layers() { return layers_; }
  const nn::Kernels& kernels() const { return layers_.kernels(); }
  int64_t threads() const { return pool_->threads(); }

 private:
  void Embed(const NativePass& pass);
  void Tap(const NativePass& pass, int32_t point, const float* x) const;
  void TapNormed(const NativePass& pass);
  void Head(const NativePass& pass);

  const ModelConfig config_;
  const std::unique_ptr<const NativeWeights> weights_;
  const std::unique_ptr<nn::ThreadPool> pool_;
  NativeLayers layers_;

  // State of the pass in progress.
  int64_t rows_ = 0;
  std::vector<float> x_;       // [rows, hidden] residual stream
  std::vector<float> normed_;  // [rows, hidden]
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_NATIVE_NATIVE_DECODER_H_
