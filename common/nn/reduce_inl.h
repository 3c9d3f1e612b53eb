// Part of a backend: included by kernels_<backend>.cc only. See math_inl.h.
#ifndef ESPALIER_COMMON_NN_REDUCE_INL_H_
#define ESPALIER_COMMON_NN_REDUCE_INL_H_

#include <cstdint>
#include <cstring>

#include "common/nn/kernels.h"
#include "common/nn/linear_inl.h"
#include "common/nn/math_inl.h"

namespace espalier::nn {
namespace {

template <typename V>
bool Peaks(const PeakArgs& a) {
  using Reg = typename V::Reg;
  const Reg zero = V::Set(0.0f), scale = V::Set(a.scale);
  // A product with zero is zero or, of what is not finite, NaN.
  Reg all_zeros = zero;
  const int64_t panels = a.size / kPanelOutputs;
  for (int64_t panel = 0; panel < panels; ++panel) {
    Reg zeros = zero;
    Reg peak;
    for (int64_t i = 0; i < kPanelOutputs; i += V::kLanes) {
      const int64_t at = panel * kPanelOutputs + i;
      Reg x = V::Load(a.x + at);
      zeros = V::MulAdd(x, zero, zeros);
      if (a.offsets != nullptr) {
        x = V::MulAdd(scale, V::Load(a.offsets + at), x);
      }
      peak = i == 0 ? x : V::Max(x, peak);
    }
    a.peaks[panel] = V::Largest(peak);
    all_zeros = V::Add(all_zeros, zeros);
  }
  float rest = V::Total(all_zeros);
  for (int64_t i = panels * kPanelOutputs; i < a.size; ++i) {
    const float x =
        a.offsets == nullptr ? a.x[i] : a.x[i] + a.scale * a.offsets[i];
    float& peak = a.peaks[panels];
    if (i == panels * kPanelOutputs || x > peak) peak = x;
    rest += a.x[i] * 0.0f;
  }
  return rest == 0.0f;
}

template <typename V>
float SumExp(const float* x, int64_t size, float shift) {
  using Reg = typename V::Reg;
  const Reg top = V::Set(shift);
  Reg sum = V::Set(0.0f);
  int64_t i = 0;
  for (; i + V::kLanes <= size; i += V::kLanes) {
    sum = V::Add(sum, Exp<V>(V::Sub(V::Load(x + i), top)));
  }
  float total = V::Total(sum);
  if (i < size) {
    float rest[V::kLanes] = {};
    for (int64_t j = i; j < size; ++j) rest[j - i] = x[j] - shift;
    V::Store(rest, Exp<V>(V::Load(rest)));
    for (int64_t j = i; j < size; ++j) total += rest[j - i];
  }
  return total;
}

// Philox 4x32-10 on a panel's worth of counters, one per 64-bit lane. Only the
// low half of a lane counts: MulLow reads no other.
template <typename V>
void PhiloxPanel(const NoiseArgs& a, int64_t panel, uint64_t* bits) {
  using Words = typename V::Words;
  constexpr int kLanes = V::kLanes / 2;
  constexpr int kBlocks = kPanelOutputs / 4;
  constexpr int kVectors = kBlocks / kLanes;
  Words c0[kVectors], c1[kVectors], c2[kVectors], c3[kVectors];
  const uint32_t first = a.counter[0] + static_cast<uint32_t>(panel * kBlocks);
  for (int n = 0; n < kVectors; ++n) {
    c0[n] = Words{} + (first + n * kLanes);
    for (int i = 0; i < kLanes; ++i) c0[n][i] += i;
    c1[n] = Words{} + a.counter[1];
    c2[n] = Words{} + a.counter[2];
    c3[n] = Words{} + a.counter[3];
  }
  const Words m0 = Words{} + 0xD2511F53u, m1 = Words{} + 0xCD9E8D57u;
  uint32_t k0 = static_cast<uint32_t>(a.key);
  uint32_t k1 = static_cast<uint32_t>(a.key >> 32);
  for (int round = 0; round < 10; ++round) {
    ESPALIER_UNROLL
    for (int n = 0; n < kVectors; ++n) {
      const Words p0 = V::MulLow(c0[n], m0), p1 = V::MulLow(c2[n], m1);
      c0[n] = (p1 >> 32) ^ c1[n] ^ k0;
      c1[n] = p1;
      c2[n] = (p0 >> 32) ^ c3[n] ^ k1;
      c3[n] = p0;
    }
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  // A counter's four words, two by two.
  uint64_t pairs[2][kBlocks];
  for (int n = 0; n < kVectors; ++n) {
    const Words first_two = (c0[n] & 0xFFFFFFFFu) | (c1[n] << 32);
    const Words last_two = (c2[n] & 0xFFFFFFFFu) | (c3[n] << 32);
    std::memcpy(&pairs[0][n * kLanes], &first_two, sizeof(Words));
    std::memcpy(&pairs[1][n * kLanes], &last_two, sizeof(Words));
  }
  for (int block = 0; block < kBlocks; ++block) {
    bits[block * 2] = pairs[0][block];
    bits[block * 2 + 1] = pairs[1][block];
  }
}

// With v = (bits + 1/2) / 2^32 the noise is at most -log v (gumbel_noise.cc).
// The bits of a float that is at most v, read as a whole number and scaled, are
// at most log2 v: between powers of two, log2 lies above its chord.
template <typename V>
void NoiseCeilings(const NoiseArgs& a) {
  constexpr float kLog2 = 0.69314718f;
  constexpr float kOne = 127.001f * kLog2;  // 0.001: for all the rounding
  for (int64_t panel = 0; panel < a.panels; ++panel) {
    uint64_t pairs[kPanelOutputs / 2];
    uint32_t bits[kPanelOutputs];
    PhiloxPanel<V>(a, panel, pairs);
    std::memcpy(bits, pairs, sizeof(bits));  // the first in the low half
    float* const out = a.ceilings + panel * kPanelOutputs;
    for (int64_t i = 0; i < kPanelOutputs; ++i) {
      const float v = static_cast<float>(static_cast<int32_t>(bits[i] >> 8));
      const float low = v * 0x1p-24f;
      int32_t log;
      std::memcpy(&log, &low, sizeof(log));
      out[i] = kOne - static_cast<float>(log) * (kLog2 * 0x1p-23f);
    }
  }
}

}  // namespace
}  // namespace espalier::nn

#endif  // ESPALIER_COMMON_NN_REDUCE_INL_H_
