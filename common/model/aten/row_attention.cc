#include "common/model/aten/row_attention.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace espalier {
namespace {

// Eight partial sums, so that the compiler may use vectors without changing
// the order of the sum.
float Dot(const float* a, const float* b, int64_t size) {
  constexpr int64_t kLanes = 8;
  float sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      sums[lane] += a[i + lane] * b[i + lane];
    }
  }
  for (int64_t lane = 0; i < size; ++i, ++lane) sums[lane] += a[i] * b[i];
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) +
         ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

void AddScaled(float scale, const float* __restrict x, int64_t size,
               float* __restrict out) {
  for (int64_t i = 0; i < size; ++i) out[i] += scale * x[i];
}

}  // namespace

void RowAttention::Run(std::vector<float>& scores, float* out) const {
  scores.clear();
  auto slot = [this](size_t key) {
    const int64_t index = static_cast<int64_t>(key);
    return index < prefix ? index : prefix + ancestors[index - prefix];
  };
  const size_t begin = first, keys = prefix + ancestors.size();
  for (size_t key = begin; key < keys; ++key) {
    scores.push_back(Dot(q, k + slot(key) * head_dim, head_dim));
  }
  if (softcap > 0) {
    for (float& score : scores) score = softcap * std::tanh(score / softcap);
  }
  const float max = *std::max_element(scores.begin(), scores.end());
  float sum = 0;
  std::fill(out, out + head_dim, 0.0f);
  for (size_t key = begin; key < keys; ++key) {
    const float weight = std::exp(scores[key - begin] - max);
    sum += weight;
    AddScaled(weight, v + slot(key) * head_dim, head_dim, out);
  }
  for (int64_t i = 0; i < head_dim; ++i) out[i] /= sum;
}

}  // namespace espalier
