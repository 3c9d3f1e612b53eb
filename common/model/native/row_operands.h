#ifndef ESPALIER_COMMON_MODEL_NATIVE_ROW_OPERANDS_H_
#define ESPALIER_COMMON_MODEL_NATIVE_ROW_OPERANDS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/model/native/native_weights.h"
#include "common/nn/kernels.h"
#include "common/nn/kv_type.h"
#include "common/nn/thread_pool.h"

namespace espalier {

// Holds what the layers of a network run on.
struct LayerRuntime {
  const nn::Kernels& kernels;
  nn::OperandType operand;  // of bf16 weights
  nn::ThreadPool& pool;
  nn::KvType kv_type = nn::KvType::kFloat32;
};

// Rows of float32, as the products of a layer read them: normalized, and in the
// type that the weights ask for. Owns the scratch memory; one thread calls it.
class RowOperands {
 public:
  // epsilon: of norms. The runtime's references must outlive this object.
  RowOperands(const LayerRuntime& runtime, float epsilon)
      : runtime_(runtime), epsilon_(epsilon) {}

  // Returns the operand of a product with `matrix`. sensitive: see
  // NativeLayers::Product.
  nn::OperandType TypeFor(const nn::PackedMatrix& matrix, bool sensitive) const;

  struct Rows {
    nn::OperandType type = nn::OperandType::kFloat32;
    const void* rows = nullptr;
    int64_t stride = 0;  // bytes
  };
  struct Input {
    const float* x = nullptr;          // [rows, inputs]
    const NativeNorm* norm = nullptr;  // applied first, if it is there
    Rows operand = {};  // of x, if it is there already: see Reserve
  };
  // [rows, inputs] as operands, valid until the next call. Input rows of
  // float32 without a norm are returned where they are.
  Rows Prepare(nn::OperandType type, const Input& input, int64_t rows,
               int64_t inputs);

  // Returns memory for operands that are prepared in parts, by the threads that
  // compute the inputs; valid until the next call. Without `rows` if this type
  // cannot be: then Prepare does it.
  Rows Reserve(nn::OperandType type, int64_t rows, int64_t inputs);
  // Prepares the inputs from `begin` of one reserved row. x: [inputs] of the
  // part. REQUIRES: `begin` is a multiple of nn::kBlockInputs, and `inputs` are
  // whole blocks or the row's last ones. Any thread.
  void PreparePart(const Rows& reserved, int64_t row, int64_t begin,
                   int64_t inputs, const float* x);

  // x, out: [rows, norm's size].
  void Normalize(const NativeNorm& norm, int64_t rows, const float* x,
                 float* out);
  // x, out: [size] one row, or part of one.
  void NormalizeRow(const NativeNorm& norm, const float* x, float* out) const;

 private:
  struct alignas(64) CacheLine {
    std::byte bytes[64];
  };
  static int64_t LinesOf(nn::OperandType type, int64_t inputs);

  const LayerRuntime runtime_;
  const float epsilon_;
  std::vector<float> normed_;  // [rows, inputs]
  std::vector<CacheLine> operands_;
  std::vector<CacheLine> reserved_;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_NATIVE_ROW_OPERANDS_H_
