// Attention of one new token per text over bfloat16 keys and values, for
// writing many texts of different lengths at once on a CPU: it reads only the
// rows that a text has. Compiled on first use by decode_attention.py.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

namespace {

// The width of a head, given to the compiler so that loops unroll.
constexpr int64_t kWidth = HEAD_DIM;

float FromBfloat16(uint16_t x) {
  const uint32_t bits = uint32_t{x} << 16;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

void Widen(const uint16_t* row, float* out) {
  for (int64_t i = 0; i < kWidth; ++i) out[i] = FromBfloat16(row[i]);
}

float Dot(const float* a, const float* b) {
  float sum = 0;
  for (int64_t i = 0; i < kWidth; ++i) sum += a[i] * b[i];
  return sum;
}

// exp of scores[0..n), scaled to the sum 1.
void Softmax(float* scores, int64_t n) {
  const float top = *std::max_element(scores, scores + n);
  float sum = 0;
  for (int64_t t = 0; t < n; ++t) {
    sum += scores[t] = std::exp(scores[t] - top);
  }
  for (int64_t t = 0; t < n; ++t) scores[t] /= sum;
}

}  // namespace

// q [texts, kv_heads, group, kWidth] float; keys and values [texts,
// kv_heads, capacity, kWidth] bfloat16; lengths [texts], at least 1; out as q.
extern "C" void DecodeAttention(const float* q, const uint16_t* keys,
                                const uint16_t* values, const int64_t* lengths,
                                float* out, int64_t texts, int64_t kv_heads,
                                int64_t group, int64_t capacity) {
  const float scale = 1 / std::sqrt(static_cast<float>(kWidth));
#pragma omp parallel
  {
    std::vector<float> scores(group * capacity);
    float row[kWidth];
#pragma omp for schedule(dynamic)
    for (int64_t cell = 0; cell < texts * kv_heads; ++cell) {
      const int64_t n = lengths[cell / kv_heads];
      const float* const queries = q + cell * group * kWidth;
      float* const mixed = out + cell * group * kWidth;
      for (int64_t t = 0; t < n; ++t) {
        Widen(keys + (cell * capacity + t) * kWidth, row);
        for (int64_t g = 0; g < group; ++g) {
          scores[g * capacity + t] = scale * Dot(queries + g * kWidth, row);
        }
      }
      for (int64_t g = 0; g < group; ++g) Softmax(&scores[g * capacity], n);
      std::fill(mixed, mixed + group * kWidth, 0.0f);
      for (int64_t t = 0; t < n; ++t) {
        Widen(values + (cell * capacity + t) * kWidth, row);
        for (int64_t g = 0; g < group; ++g) {
          const float weight = scores[g * capacity + t];
          for (int64_t i = 0; i < kWidth; ++i) {
            mixed[g * kWidth + i] += weight * row[i];
          }
        }
      }
    }
  }
}
