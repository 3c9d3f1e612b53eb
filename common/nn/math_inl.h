// Part of a backend: included by kernels_<backend>.cc only.
//
// V is the backend's vector of kLanes floats: a struct with static functions
// that wrap one instruction each. Everything is in anonymous namespaces, and
// functions of libraries are those that compile to an instruction: see
// kernels.h.
#ifndef ESPALIER_COMMON_NN_MATH_INL_H_
#define ESPALIER_COMMON_NN_MATH_INL_H_

#include <cstdint>

#include "common/nn/kernels.h"

namespace espalier::nn {
namespace {

// e^x within 2 units in the last place for -87 <= x <= 88, and as at these ends
// beyond. A NaN stays one (Min and Max return their second operand then). Range
// reduction by ln 2 in two parts and the polynomial of Cephes' expf.
template <typename V>
typename V::Reg Exp(typename V::Reg x) {
  using Reg = typename V::Reg;
  x = V::Min(V::Set(88.0f), V::Max(V::Set(-87.0f), x));
  const Reg n = V::Round(V::Mul(x, V::Set(1.44269504088896341f)));
  Reg f = V::MulAdd(n, V::Set(-0.693359375f), x);
  f = V::MulAdd(n, V::Set(2.12194440e-4f), f);
  Reg p = V::Set(1.9875691500e-4f);
  p = V::MulAdd(p, f, V::Set(1.3981999507e-3f));
  p = V::MulAdd(p, f, V::Set(8.3334519073e-3f));
  p = V::MulAdd(p, f, V::Set(4.1665795894e-2f));
  p = V::MulAdd(p, f, V::Set(1.6666665459e-1f));
  p = V::MulAdd(p, f, V::Set(5.0000001201e-1f));
  p = V::MulAdd(V::Mul(f, f), p, V::Add(f, V::Set(1.0f)));
  return V::Scale(p, n);
}

// 2^x within 2 units in the last place for -126 <= x <= 127, and as at -126
// below. A NaN stays one. The polynomial is a minimax fit.
template <typename V>
typename V::Reg Exp2(typename V::Reg x) {
  using Reg = typename V::Reg;
  x = V::Max(V::Set(-126.0f), x);
  const Reg f = V::Fraction(x);
  Reg p = V::Set(1.3264727e-3f);
  p = V::MulAdd(p, f, V::Set(9.6715130e-3f));
  p = V::MulAdd(p, f, V::Set(5.5507336e-2f));
  p = V::MulAdd(p, f, V::Set(2.4022242e-1f));
  p = V::MulAdd(p, f, V::Set(6.9314700e-1f));
  p = V::MulAdd(p, f, V::Set(1.0f));
  return V::Scale(p, V::Sub(x, f));
}

// x / (1 + e^-t): SiLU with t = x.
template <typename V>
typename V::Reg Sigmoid(typename V::Reg x, typename V::Reg t) {
  const typename V::Reg e = Exp<V>(V::Sub(V::Set(0.0f), t));
  return V::Div(x, V::Add(V::Set(1.0f), e));
}

// GELU's tanh form, by 1 + tanh(u) = 2 / (1 + e^-2u).
template <typename V>
typename V::Reg GeluTanh(typename V::Reg x) {
  constexpr float kTwoSqrt2OverPi = 1.5957691216057308f;
  const typename V::Reg cube = V::Mul(V::Mul(x, x), x);
  return Sigmoid<V>(x, V::Mul(V::Set(kTwoSqrt2OverPi),
                              V::MulAdd(V::Set(0.044715f), cube, x)));
}

// Beyond it, tanh is 1.
constexpr float kTanhEnd = 7.90531110763549805f;

// Within 4 units in the last place. A NaN stays one. The
// quotient of an odd and an even polynomial, as minimax fits have it.
template <typename V>
typename V::Reg Tanh(typename V::Reg x) {
  using Reg = typename V::Reg;
  x = V::Min(V::Set(kTanhEnd), V::Max(V::Set(-kTanhEnd), x));
  const Reg square = V::Mul(x, x);
  Reg p = V::Set(-2.76076847742355e-16f);
  p = V::MulAdd(p, square, V::Set(2.00018790482477e-13f));
  p = V::MulAdd(p, square, V::Set(-8.60467152213735e-11f));
  p = V::MulAdd(p, square, V::Set(5.12229709037114e-08f));
  p = V::MulAdd(p, square, V::Set(1.48572235717979e-05f));
  p = V::MulAdd(p, square, V::Set(6.37261928875436e-04f));
  p = V::MulAdd(p, square, V::Set(4.89352455891786e-03f));
  Reg q = V::Set(1.19825839466702e-06f);
  q = V::MulAdd(q, square, V::Set(1.18534705686654e-04f));
  q = V::MulAdd(q, square, V::Set(2.26843463243900e-03f));
  q = V::MulAdd(q, square, V::Set(4.89352518554385e-03f));
  return V::Div(V::Mul(x, p), q);
}

// x -> cap * tanh(x / cap), in place. `size`: a multiple of V::kLanes.
template <typename V>
void Softcap(float cap, int64_t size, float* x) {
  const typename V::Reg scale = V::Set(cap), inverse = V::Set(1.0f / cap);
  for (int64_t i = 0; i < size; i += V::kLanes) {
    V::Store(x + i, V::Mul(scale, Tanh<V>(V::Mul(inverse, V::Load(x + i)))));
  }
}

// In place. `size`: a multiple of V::kLanes.
template <typename V>
void Activate(Activation activation, int64_t size, float* x) {
  switch (activation) {
    case Activation::kNone:
      return;
    case Activation::kSilu:
      for (int64_t i = 0; i < size; i += V::kLanes) {
        const typename V::Reg v = V::Load(x + i);
        V::Store(x + i, Sigmoid<V>(v, v));
      }
      return;
    case Activation::kGeluTanh:
      for (int64_t i = 0; i < size; i += V::kLanes) {
        V::Store(x + i, GeluTanh<V>(V::Load(x + i)));
      }
      return;
    case Activation::kGelu:  // rare enough for the library's erf
      for (int64_t i = 0; i < size; ++i) {
        x[i] *= 0.5f * (1.0f + __builtin_erff(x[i] * 0.70710678118654752f));
      }
      return;
  }
}

}  // namespace
}  // namespace espalier::nn

#endif  // ESPALIER_COMMON_NN_MATH_INL_H_
