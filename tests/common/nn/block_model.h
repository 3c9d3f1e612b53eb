#ifndef ESPALIER_TESTS_COMMON_NN_BLOCK_MODEL_H_
#define ESPALIER_TESTS_COMMON_NN_BLOCK_MODEL_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "common/base/bf16.h"
#include "common/nn/weight_source.h"

namespace espalier::nn {

// Products of blocks in plain C++: what every backend has to equal.

// A weight as integers: scale * code + minimum.
struct ModelWeight {
  int code = 0;
  float scale = 0;
  float minimum = 0;
};

// Blocks of GGUF files, unpacked element by element in the order in which the
// format's own description gives them.
class GgufModel {
 public:
  explicit GgufModel(const std::vector<uint8_t>& bytes) : p_(bytes.data()) {}

  // Returns the next unit of a row.
  std::vector<ModelWeight> Next(WeightSource::Format format) {
    using Format = WeightSource::Format;
    switch (format) {
      case Format::kQ8_0:
        return Bytes();
      case Format::kQ4_0:
        return Simple(4, false);
      case Format::kQ4_1:
        return Simple(4, true);
      case Format::kQ5_0:
        return Simple(5, false);
      case Format::kQ5_1:
        return Simple(5, true);
      case Format::kQ4K:
        return Super45(4);
      case Format::kQ5K:
        return Super45(5);
      default:
        return Super6();
    }
  }

 private:
  float Half() {
    const auto bits = static_cast<uint16_t>(p_[0] | p_[1] << 8);
    p_ += 2;
    return F16ToFloat(bits);
  }

  std::vector<ModelWeight> Bytes() {
    const float scale = Half();
    std::vector<ModelWeight> weights;
    for (int i = 0; i < 32; ++i) {
      weights.push_back({static_cast<int8_t>(*p_++), scale});
    }
    return weights;
  }

  std::vector<ModelWeight> Simple(int bits, bool minimums) {
    const float scale = Half();
    const float minimum = minimums ? Half() : 0;
    uint32_t high = 0;
    if (bits == 5) {
      std::memcpy(&high, p_, 4);
      p_ += 4;
    }
    const int middle = minimums ? 0 : 1 << (bits - 1);
    std::vector<ModelWeight> weights;
    for (int i = 0; i < 32; ++i) {
      const int low = i < 16 ? p_[i] & 15 : p_[i - 16] >> 4;
      const int code = low + static_cast<int>(high >> i & 1) * 16;
      weights.push_back({code - middle, scale, minimum});
    }
    p_ += 16;
    return weights;
  }

  std::vector<ModelWeight> Super45(int bits) {
    const float scale = Half(), minimum = Half();
    const uint8_t* const six = p_;
    const uint8_t* const high = p_ + 12;
    const uint8_t* low = high + (bits == 5 ? 32 : 0);
    std::vector<ModelWeight> weights;
    for (int block = 0; block < 8; ++block) {
      int s = six[block] & 63, m = six[block + 4] & 63;
      if (block >= 4) {
        s = (six[block + 4] & 15) + (six[block - 4] >> 6) * 16;
        m = (six[block + 4] >> 4) + (six[block] >> 6) * 16;
      }
      for (int i = 0; i < 32; ++i) {
        int code = block % 2 == 0 ? low[i] % 16 : low[i] / 16;
        if (bits == 5) code += (high[i] >> block) % 2 * 16;
        weights.push_back({code, scale * static_cast<float>(s),
                           -(minimum * static_cast<float>(m))});
      }
      if (block % 2 == 1) low += 32;
    }
    p_ = low;
    return weights;
  }

  std::vector<ModelWeight> Super6() {
    const uint8_t *low = p_, *high = p_ + 128, *scales = p_ + 192;
    p_ += 208;
    const float scale = Half();
    std::vector<ModelWeight> weights(256);
    for (int half = 0; half < 2; ++half) {
      for (int i = 0; i < 32; ++i) {
        const int codes[4] = {low[i] % 16 + high[i] % 4 * 16,
                              low[i + 32] % 16 + (high[i] >> 2) % 4 * 16,
                              low[i] / 16 + (high[i] >> 4) % 4 * 16,
                              low[i + 32] / 16 + (high[i] >> 6) * 16};
        for (int j = 0; j < 4; ++j) {
          const auto s = static_cast<int8_t>(scales[i / 16 + 2 * j]);
          weights[half * 128 + j * 32 + i] = {codes[j] - 32,
                                              scale * static_cast<float>(s)};
        }
      }
      low += 64;
      high += 32;
      scales += 8;
    }
    return weights;
  }

  const uint8_t* p_;
};

// Inputs of one row, rounded: 32 share a scale. `fine`: once to 8 bits, and
// what is left to 128 steps more.
struct ModelRow {
  ModelRow(const std::vector<float>& x, bool fine) {
    for (size_t begin = 0; begin < x.size(); begin += 32) {
      float most = 0;
      const size_t end = std::min(begin + 32, x.size());
      for (size_t i = begin; i < end; ++i)
        most = std::max(most, std::abs(x[i]));
      const float steps = 127 / most;
      for (size_t i = begin; i < end; ++i) {
        const float scaled = most == 0 ? 0 : x[i] * steps;
        const float high = std::nearbyint(scaled);
        codes.push_back(static_cast<int>(high));
        if (!fine) continue;
        codes.back() *= 128;
        codes.back() += static_cast<int>(std::nearbyint((scaled - high) * 128));
      }
      scales.push_back(fine ? most / 127 / 128 : most / 127);
    }
  }
  std::vector<int> codes;
  std::vector<float> scales;
};

// `group`: weights that share a scale.
inline float ModelProduct(const std::vector<ModelWeight>& weights,
                          const ModelRow& row, int64_t group, bool minimums) {
  float sum = 0;
  const int64_t inputs = static_cast<int64_t>(weights.size());
  for (int64_t begin = 0; begin < inputs; begin += group) {
    const ModelWeight* const w = &weights[begin];
    const int* const x = &row.codes[begin];
    const int64_t size = std::min(group, inputs - begin);
    int64_t products = 0, codes = 0;
    for (int64_t i = 0; i < size; ++i) {
      products += w[i].code * x[i];
      codes += x[i];
    }
    const float scale = row.scales[begin / 32];
    sum = std::fma(static_cast<float>(products), w->scale * scale, sum);
    if (!minimums) continue;
    sum = std::fma(w->minimum, scale * static_cast<float>(codes), sum);
  }
  return sum;
}

}  // namespace espalier::nn

#endif  // ESPALIER_TESTS_COMMON_NN_BLOCK_MODEL_H_
