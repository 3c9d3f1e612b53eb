#ifndef ESPALIER_COMMON_MODEL_NATIVE_NATIVE_LAYERS_H_
#define ESPALIER_COMMON_MODEL_NATIVE_NATIVE_LAYERS_H_

#include <cstdint>
#include <vector>

#include "common/model/files/model_config.h"
#include "common/model/native/native_attention.h"
#include "common/model/native/native_mixture.h"
#include "common/model/native/native_pass.h"
#include "common/model/native/native_weights.h"
#include "common/model/native/row_operands.h"
#include "common/nn/kernels.h"
#include "common/nn/product_chunks.h"
#include "common/nn/thread_pool.h"

namespace espalier {

// The building blocks of the layers of targets and draft heads, on the kernels
// of one CPU backend. Rows are float32, row-major and dense. Owns the scratch
// memory of a pass, so one thread, the engine's, calls it.
class NativeLayers {
 public:
  using Runtime = LayerRuntime;
  using Input = RowOperands::Input;

  // `config` describes the layers. The references must outlive this object.
  NativeLayers(const ModelConfig& config, const Runtime& runtime);

  // Starts a pass, which must not change until its last layer.
  void Begin(const NativePass& pass);

  // Returns how many experts the pass has read so far.
  int64_t experts_read() const { return mixture_.experts_read(); }

  // One layer: x += attention(input), then x += ffn(norm(x)); both normalized
  // before they are added, if the layer has such norms.
  // input: of layer.qkv; x: [rows, hidden], the residual stream.
  void Run(int64_t index, const NativeLayer& layer, const Input& input,
           float* x);

  // Only caches the keys and values of `input`, for rows that others attend to
  // but that attend to nothing themselves.
  void FillCaches(int64_t index, const NativeLayer& layer, const float* input);

  // x, out: [rows, norm's size].
  void Normalize(const NativeNorm& norm, int64_t rows, const float* x,
                 float* out);

  struct Product {
    const NativeLinear& linear;
    Input input;
    int64_t rows = 0;
    float* out = nullptr;  // [rows, out_columns]
    nn::Activation activation = nn::Activation::kNone;
    bool accumulate = false;
    int64_t first_panel = 0;  // columns before it are not written
    // The rounding of rows costs much here: blocks of weights are multiplied
    // with rows of 15 bits, not of 8. So they are where they were rounded
    // themselves, and where the product is streamed.
    bool sensitive = false;
    float softcap = 0;  // see nn::LinearArgs
    // Reserved for what the next product reads of `out`, if it is: each part is
    // prepared where it was computed.
    RowOperands::Rows next = {};
  };
  void Multiply(const Product& product);

  // A product that is consumed while it is computed; `out` is not used.
  void Stream(const Product& product, nn::ProductChunks::Consumer consume);
  void Stream(const Product& product, absl::Span<const int64_t> chunks,
              nn::ProductChunks::Consumer consume);

  const nn::Kernels& kernels() const { return runtime_.kernels; }
  int64_t threads() const { return runtime_.pool.threads(); }

 private:
  void Attend(int64_t index, const NativeLayer& layer, const Input& input,
              float* x);
  void FeedForward(int64_t index, const NativeLayer& layer, float* x);
  // Normalizes queries and keys in qkv_ over all heads of a row.
  void NormalizeAllHeads(const NativeLayer& layer);
  // Returns memory for the rows that `linear` reads, while the products before
  // it compute them; see RowOperands::Reserve.
  RowOperands::Rows ReserveFor(const NativeLinear& linear);
  // x += product, normalized if there is such a norm.
  void AddProduct(const NativeLinear& linear, const Input& input,
                  const NativeNorm& norm, float* x);
  // x += norm(y), y: [rows, hidden], which is overwritten.
  void AddNormed(const NativeNorm& norm, float* y, float* x);
  nn::LinearArgs ArgsOf(const Product& product);  // of no panels yet
  // Prepares some blocks of product.out for the next product.
  void PrepareNext(const Product& product, const nn::ThreadPool::Chunk& blocks);

  const ModelConfig& config_;
  const Runtime runtime_;
  NativeAttention attention_;
  RowOperands operands_;
  NativeMixture mixture_;
  nn::ProductChunks chunks_;
  const int64_t widest_;  // ffn_size of the dense layers

  int64_t rows_ = 0;             // of the pass in progress
  std::vector<float> qkv_;       // [rows, (heads + 2 kv_heads) * head_dim]
  std::vector<float> attended_;  // [rows, heads * head_dim]
  std::vector<float> ffn_;       // [rows, ffn]
  std::vector<float> added_;     // [rows, hidden] what is added to x
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_NATIVE_NATIVE_LAYERS_H_
