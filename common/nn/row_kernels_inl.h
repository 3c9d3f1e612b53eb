// Part of a backend: included by kernels_<backend>.cc only. See math_inl.h.
#ifndef ESPALIER_COMMON_NN_ROW_KERNELS_INL_H_
#define ESPALIER_COMMON_NN_ROW_KERNELS_INL_H_

#include <cstdint>

#include "common/nn/kernels.h"

namespace espalier::nn {
namespace {

// Sum of (x - center)^2, by lanes, then the rest one by one.
template <typename V>
float SumOfSquares(const float* x, int64_t size, float center) {
  using Reg = typename V::Reg;
  const Reg middle = V::Set(center);
  Reg sum = V::Set(0.0f);
  int64_t i = 0;
  for (; i + V::kLanes <= size; i += V::kLanes) {
    const Reg d = V::Sub(V::Load(x + i), middle);
    sum = V::MulAdd(d, d, sum);
  }
  float total = V::Total(sum);
  for (; i < size; ++i) total += (x[i] - center) * (x[i] - center);
  return total;
}

template <typename V>
float Sum(const float* x, int64_t size) {
  typename V::Reg sum = V::Set(0.0f);
  int64_t i = 0;
  for (; i + V::kLanes <= size; i += V::kLanes) {
    sum = V::Add(sum, V::Load(x + i));
  }
  float total = V::Total(sum);
  for (; i < size; ++i) total += x[i];
  return total;
}

template <typename V>
void Normalize(const NormArgs& a) {
  const float size = static_cast<float>(a.size);
  const float mean = a.bias == nullptr ? 0.0f : Sum<V>(a.x, a.size) / size;
  const float variance = SumOfSquares<V>(a.x, a.size, mean) / size;
  const float scale = 1.0f / __builtin_sqrtf(variance + a.epsilon);
  if (a.bias == nullptr) {
    for (int64_t i = 0; i < a.size; ++i) {
      a.out[i] = a.x[i] * scale * a.weight[i];
    }
  } else {
    for (int64_t i = 0; i < a.size; ++i) {
      a.out[i] = (a.x[i] - mean) * scale * a.weight[i] + a.bias[i];
    }
  }
}

// x and out may be the same: a pair is read before it is written.
template <typename V>
void Rotate(const RotateArgs& a) {
  using Reg = typename V::Reg;
  if (a.cos == nullptr) {
    for (int64_t i = 0; i < a.head_dim; ++i) a.out[i] = a.x[i] * a.scale;
    return;
  }
  const Reg scale = V::Set(a.scale);
  const int64_t half = a.head_dim / 2;
  int64_t i = 0;
  for (; i + V::kLanes <= half; i += V::kLanes) {
    const Reg x = V::Load(a.x + i), y = V::Load(a.x + half + i);
    const Reg cos = V::Load(a.cos + i), sin = V::Load(a.sin + i);
    V::Store(a.out + i, V::Mul(V::Sub(V::Mul(x, cos), V::Mul(y, sin)), scale));
    V::Store(a.out + half + i,
             V::Mul(V::Add(V::Mul(y, cos), V::Mul(x, sin)), scale));
  }
  for (; i < half; ++i) {
    const float x = a.x[i], y = a.x[i + half];
    a.out[i] = (x * a.cos[i] - y * a.sin[i]) * a.scale;
    a.out[i + half] = (y * a.cos[i] + x * a.sin[i]) * a.scale;
  }
}

}  // namespace
}  // namespace espalier::nn

#endif  // ESPALIER_COMMON_NN_ROW_KERNELS_INL_H_
