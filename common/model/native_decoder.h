#ifndef ESPALIER_COMMON_MODEL_NATIVE_DECODER_H_
#define ESPALIER_COMMON_MODEL_NATIVE_DECODER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "common/model/model_config.h"
#include "common/model/native_attention.h"
#include "common/model/native_pass.h"
#include "common/model/native_weights.h"
#include "common/nn/kernels.h"
#include "common/nn/product_chunks.h"
#include "common/nn/thread_pool.h"

namespace espalier {

// The pass through a decoder on the kernels of one CPU backend. Activations
// are float32. Owns the scratch memory of a pass, so one thread, the engine's,
// calls it.
class NativeDecoder {
 public:
  struct Parts {
    ModelConfig config;
    std::unique_ptr<const NativeWeights> weights;
    const nn::Kernels* kernels = nullptr;
    nn::OperandType operand = nn::OperandType::kFloat32;  // of the kernels
    std::unique_ptr<nn::ThreadPool> pool;
  };

  explicit NativeDecoder(Parts parts);

  // Puts the K/V of all rows into their caches, gives the logits of the wanted
  // rows to the pass's reductions, and writes the features that are wanted.
  void Run(const NativePass& pass);

  const nn::Kernels& kernels() const { return kernels_; }
  int64_t threads() const { return pool_->threads(); }

 private:
  void Embed(const NativePass& pass);
  void Attention(const NativeLayer& layer, int64_t index);
  void FeedForward(const NativeLayer& layer);
  void Tap(const NativePass& pass, int64_t point, const float* x) const;
  void TapNormed(const NativePass& pass);
  void Head(const NativePass& pass);
  void Normalize(const NativeNorm& norm, int64_t rows, const float* x);

  struct Product {
    const NativeLinear& linear;
    const std::vector<float>& x;  // [rows, inputs]
    int64_t rows = 0;
    float* out = nullptr;  // [rows, out_columns]
    nn::Activation activation = nn::Activation::kNone;
    bool accumulate = false;
  };
  nn::LinearArgs ArgsOf(const Product& product);  // of no panels yet
  void Multiply(const Product& product);

  // Rows as a product reads them.
  struct Operands {
    nn::OperandType type = nn::OperandType::kFloat32;
    const void* rows = nullptr;
    int64_t stride = 0;  // bytes
  };
  Operands Prepare(const Product& product);

  const ModelConfig config_;
  const std::unique_ptr<const NativeWeights> weights_;
  const nn::Kernels& kernels_;
  const nn::OperandType operand_;  // of bf16 weights
  const std::unique_ptr<nn::ThreadPool> pool_;
  NativeAttention attention_;
  nn::ProductChunks head_chunks_;

  // Of the pass in progress.
  int64_t rows_ = 0;
  std::vector<float> x_;         // [rows, hidden] residual stream
  std::vector<float> normed_;    // [rows, hidden]
  std::vector<float> qkv_;       // [rows, (heads + 2 kv_heads) * head_dim]
  std::vector<float> attended_;  // [rows, heads * head_dim]
  std::vector<float> ffn_;       // [rows, ffn]
  struct alignas(64) CacheLine {
    std::byte bytes[64];
  };
  std::vector<CacheLine> operands_;
  std::vector<std::vector<float>> scratch_;  // by thread, of products
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_NATIVE_DECODER_H_
