#ifndef ESPALIER_COMMON_CUDA_KERNELS_PREPARE_H_
#define ESPALIER_COMMON_CUDA_KERNELS_PREPARE_H_

#include "common/cuda/device.h"
#include "common/cuda/kernel_args.h"
#include "common/cuda/kernels/parts.h"
#include "common/cuda/kernels/row_norm.h"
#include "common/cuda/layout.h"

namespace espalier::cuda {
namespace {

inline constexpr int kPrepareWarps = 4;

// A head of a row in the registers of a warp: a lane has the same places of
// both halves, which rotation pairs.
template <int kDim>
struct Head {
  static constexpr int kPairs = kDim / 64;
  using Pairs = Vector<float, kPairs>;
  Pairs halves[2];

  DEVICE static int Place(int half) {
    return half * (kDim / 2) + threadIdx.x % 32 * kPairs;
  }

  // The sums of a product's parts, as AddParts.
  DEVICE void Load(const Parts& parts, int64_t row, int head) {
#pragma unroll
    for (int i = 0; i < kPairs; ++i) halves[0].of[i] = halves[1].of[i] = 0;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      AddParts(parts, row, head * kDim + Place(half), halves[half]);
    }
  }

  DEVICE void Norm(const Pairs (&weight)[2], float epsilon) {
    float sum = 0;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int i = 0; i < kPairs; ++i) {
        sum = fmaf(halves[half].of[i], halves[half].of[i], sum);
      }
    }
    const float scale = InverseSqrt(WarpSum(sum) / kDim + epsilon);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int i = 0; i < kPairs; ++i) {
        halves[half].of[i] = halves[half].of[i] * scale * weight[half].of[i];
      }
    }
  }

  // angles: of each pair cos, sin
  DEVICE void Turn(const Vector<float, 2 * kPairs>& angles) {
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const float cos = angles.of[2 * i], sin = angles.of[2 * i + 1];
      const float a = halves[0].of[i], b = halves[1].of[i];
      halves[0].of[i] = a * cos - b * sin;
      halves[1].of[i] = b * cos + a * sin;
    }
  }

  // Returns a half, rounded.
  DEVICE Vector<bf16_t, kPairs> Rounded(int half) const {
    Vector<bf16_t, kPairs> rounded;
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      rounded.of[i] =
          static_cast<bf16_t>(PackBf16(halves[half].of[i], 0) & 0xffff);
    }
    return rounded;
  }
};

// A head of a row among the outputs of a product, and where it goes. A warp's.
template <int kDim>
class HeadToPrepare {
 public:
  // Reads what no kernel writes. output_head: of all layers.
  DEVICE HeadToPrepare(const PrepareArgs& args, int64_t row, int output_head)
      : args_(args),
        row_(row),
        output_head_(output_head),
        layer_(output_head / HeadsOfLayer(args)),
        head_(output_head % HeadsOfLayer(args)),
        place_(args.rows[row]),
        page_(args.kv.page_table[args.sequences[place_.sequence].table_begin +
                                 place_.slot / kPagePositions]),
        angles_(LoadVector<2 * X::kPairs>(
            args.angles + int64_t{place_.position} * kDim + 2 * X::Place(0))) {
    if (!IsNormed()) return;
    const float* const norm =
        IsQuery() ? args.query_norm : args.key_norm + layer_ * kDim;
    weight_[0] = LoadVector<X::kPairs>(norm + X::Place(0));
    weight_[1] = LoadVector<X::kPairs>(norm + X::Place(1));
  }

  // When the product is there.
  DEVICE void Run() const {
    if (!IsThere()) return;
    X x;
    x.Load(args_.parts, row_, output_head_);
    if (!IsValue()) {
      if (IsNormed()) x.Norm(weight_, args_.epsilon);
      x.Turn(angles_);
    }
    if (IsQuery()) {
      WriteQuery(x);
    } else {
      WriteToPage(x);
    }
  }

 private:
  using X = Head<kDim>;

  DEVICE static int HeadsOfLayer(const PrepareArgs& args) {
    return args.heads + 2 * args.kv_heads;
  }
  DEVICE bool IsThere() const { return layer_ < args_.layers; }  // whole warps
  DEVICE bool IsQuery() const { return head_ < args_.heads; }
  DEVICE bool IsValue() const { return head_ >= args_.heads + args_.kv_heads; }
  DEVICE bool IsNormed() const {
    return IsThere() &&
           (IsQuery() ? args_.query_norm : args_.key_norm) != nullptr;
  }
  DEVICE void WriteQuery(const X& x) const {
    bf16_t* const to = args_.queries + (row_ * args_.heads + head_) * kDim;
    for (int half = 0; half < 2; ++half) {
      StoreVector(to + X::Place(half), x.Rounded(half));
    }
  }
  DEVICE void WriteToPage(const X& x) const {
    const int kv_head = (head_ - args_.heads) % args_.kv_heads;
    unsigned char* const panel =
        args_.kv.pages + page_ * args_.kv.page_bytes +
        PanelOffset(kDim, args_.kv_heads, layer_, kv_head, IsValue());
    for (int half = 0; half < 2; ++half) {
      const int at = X::Place(half);
      StoreVector(
          reinterpret_cast<bf16_t*>(
              panel + PanelPlace(kDim, place_.slot % kPagePositions, at / 8)) +
              at % 8,
          x.Rounded(half));
    }
  }

  const PrepareArgs& args_;
  const int64_t row_;
  const int output_head_, layer_, head_;
  const PassRow place_;
  const int page_;  // of its K/V, in the pool
  const Vector<float, 2 * X::kPairs> angles_;
  typename X::Pairs weight_[2] = {};
};

// Grid: rows, layers * heads / kPrepareWarps. A warp for each head of a row.
// What no kernel writes is read before the product has ended. The attention may
// begin when it has: until this ends, it reads what this does not write.
template <int kDim>
__global__ void __launch_bounds__(kPrepareWarps * 32)
    Prepare(const __grid_constant__ PrepareArgs args) {
  const HeadToPrepare<kDim> head(args, blockIdx.x,
                                 blockIdx.y * kPrepareWarps + threadIdx.x / 32);
  WaitForPrevious();
  DependentsMayLaunch();
  head.Run();
}

}  // namespace
}  // namespace espalier::cuda

#endif  // ESPALIER_COMMON_CUDA_KERNELS_PREPARE_H_
