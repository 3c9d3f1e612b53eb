#ifndef ESPALIER_COMMON_MODEL_NATIVE_NATIVE_WEIGHTS_H_
#define ESPALIER_COMMON_MODEL_NATIVE_NATIVE_WEIGHTS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "common/model/compute_dtype.h"
#include "common/model/files/model_config.h"
#include "common/model/files/weight_files.h"
#include "common/nn/huge_page_arena.h"
#include "common/nn/kernels.h"
#include "common/nn/packed_matrix.h"
#include "common/nn/thread_pool.h"

namespace espalier {

struct NativeNorm {
  std::vector<float> weight = {};  // [hidden]
  std::vector<float> bias = {};    // [hidden]; empty: root mean square, no bias

  bool is_there() const { return !weight.empty(); }
};

struct NativeLinear {
  nn::PackedMatrix matrix;
  std::vector<float> bias = {};  // as packed; empty: none
};

struct NativeMlp {
  NativeLinear up;    // hidden -> ffn; gated (SwiGLU) for Llama
  NativeLinear down;  // ffn -> hidden
};

// The experts of a layer that is not dense. All are packed alike.
struct NativeExperts {
  NativeLinear router;  // hidden -> experts, float32 in every compute type
  std::vector<NativeMlp> mlps;  // [experts]
};

struct NativeLayer {
  // Norms of inputs; those that the layer lacks have no weights.
  NativeNorm attention_norm;
  NativeNorm ffn_norm;
  // Norms of outputs, likewise.
  NativeNorm attention_out_norm;
  NativeNorm ffn_out_norm;
  NativeLinear qkv;  // hidden -> (heads + 2 kv_heads) * head_dim
  // As HeadNorm says: of [head_dim], or [heads * head_dim]; or none.
  NativeNorm q_norm;
  NativeNorm k_norm;
  NativeLinear attention_out;  // heads * head_dim -> hidden
  nn::Activation activation = nn::Activation::kNone;
  NativeMlp mlp;          // of a dense layer
  NativeExperts experts;  // of another
};

// The weights of a decoder of any known architecture, packed. Differences
// between architectures are data here, so that one forward pass serves them
// all. Constant after loading.
struct NativeWeights {
  nn::HugePageArena arena;                    // owns what the matrices point to
  nn::PackedMatrix tokens;                    // [vocab, hidden]
  std::optional<nn::PackedMatrix> positions;  // [max_positions, hidden]
  std::vector<NativeLayer> layers;
  NativeNorm final_norm;
  NativeLinear head;  // hidden -> vocab; a tied one is `tokens`

  int64_t bytes = 0;
};

// Packs the weights straight from the mapped files, panel by panel, and drops
// the file's pages once packed. kFloat32: a matrix that is not bfloat16 in the
// file becomes float32. Integer types take blocks of the file as they are,
// unless they have more bits. Otherwise weights are rounded to the requested
// type.
// NOT_FOUND, INVALID_ARGUMENT: a tensor is missing or has another shape or
// type.
absl::StatusOr<std::unique_ptr<NativeWeights>> LoadNativeWeights(
    const ModelConfig& config, const WeightFiles& files, ComputeDType dtype,
    nn::ThreadPool& pool);

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_NATIVE_NATIVE_WEIGHTS_H_
