#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "common/nn/kernels.h"
#include "common/speculation/gumbel_noise.h"
#include "tests/common/nn/kernel_testing.h"

namespace espalier::nn {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kHuge = std::numeric_limits<float>::max();

class ReduceTest : public KernelTest {
 protected:
  struct Found {
    bool finite = false;
    std::vector<float> peaks;
  };
  Found Peaks(const std::vector<float>& x,
              const std::vector<float>& offsets = {}, float scale = 0) {
    Found found;
    const int64_t size = static_cast<int64_t>(x.size());
    found.peaks.resize((size + kPanelOutputs - 1) / kPanelOutputs);
    found.finite =
        kernels().peaks({.x = x.data(),
                         .size = size,
                         .offsets = offsets.empty() ? nullptr : offsets.data(),
                         .scale = scale,
                         .peaks = found.peaks.data()});
    return found;
  }

  // Returns the largest number in one panel of x.
  static float LargestIn(const std::vector<float>& x, size_t panel) {
    const auto begin = x.begin() + panel * kPanelOutputs;
    return *std::max_element(
        begin, begin + std::min<int64_t>(kPanelOutputs, x.end() - begin));
  }
};
ESPALIER_TEST_ALL_BACKENDS(ReduceTest);

TEST_P(ReduceTest, PeakIsTheLargestOfItsPanel) {
  for (int64_t size : {1, 7, 31, 32, 33, 64, 255, 256, 1000}) {
    const std::vector<float> x = Random(size, 50);
    const Found found = Peaks(x);
    EXPECT_TRUE(found.finite);
    for (size_t panel = 0; panel < found.peaks.size(); ++panel) {
      ASSERT_EQ(found.peaks[panel], LargestIn(x, panel)) << size;
    }
  }
}

TEST_P(ReduceTest, PeakCountsScaledOffsets) {
  constexpr float kScale = 0.3f;
  for (int64_t size : {5, 32, 45, 256}) {
    const std::vector<float> x = Random(size, 5), offsets = Random(size, 20);
    std::vector<float> sums;
    for (int64_t i = 0; i < size; ++i) {
      sums.push_back(x[i] + kScale * offsets[i]);
    }
    const Found found = Peaks(x, offsets, kScale);
    EXPECT_TRUE(found.finite);
    for (size_t panel = 0; panel < found.peaks.size(); ++panel) {
      ASSERT_NEAR(found.peaks[panel], LargestIn(sums, panel), 1e-5);
    }
  }
}

TEST_P(ReduceTest, OneNumberThatIsNotFiniteIsSeenAnywhere) {
  for (int64_t size : {1, 32, 77, 256}) {
    std::vector<float> x = Random(size);
    for (float& value : x) {
      for (float bad : {kInf, -kInf, kNan}) {
        const float before = std::exchange(value, bad);
        EXPECT_FALSE(Peaks(x).finite);
        value = before;
      }
    }
    std::fill(x.begin(), x.end(), kHuge);
    EXPECT_TRUE(Peaks(x).finite);
    std::fill(x.begin(), x.end(), -kHuge);
    EXPECT_TRUE(Peaks(x).finite);
    EXPECT_EQ(Peaks(x).peaks.back(), -kHuge);
  }
}

TEST_P(ReduceTest, SumExpAgreesWithFloat64) {
  for (int64_t size : {1, 3, 8, 31, 256, 999}) {
    for (float scale : {0.1f, 5.0f, 80.0f}) {
      const std::vector<float> x = Random(size, scale);
      const float top = *std::max_element(x.begin(), x.end());
      double sum = 0;
      for (float value : x) sum += std::exp(double{value} - top);
      EXPECT_NEAR(kernels().sum_exp(x.data(), size, top), sum, 2e-6 * sum);
    }
  }
}

TEST_P(ReduceTest, SumExpHasNoOverflow) {
  const std::vector<float> x = {-kHuge, kHuge, -kHuge, 0, kHuge};
  EXPECT_EQ(kernels().sum_exp(x.data(), 5, kHuge), 2);
}

// An upper bound for every token, and one that is worth having for those with
// much noise.
TEST_P(ReduceTest, NoiseCeilingIsJustAboveTheNoise) {
  constexpr int64_t kPanels = 40;
  constexpr TokenId kFirst = 12 * 32;
  std::vector<float> ceilings(kPanels * kPanelOutputs);
  for (const auto& [seed, position] :
       {std::pair(uint64_t{0}, int64_t{0}),
        std::pair(~uint64_t{0}, int64_t{1} << 40),
        std::pair(uint64_t{0x123456789abcdef}, int64_t{4711})}) {
    const GumbelNoise noise(seed, position);
    const GumbelNoise::Stream stream = noise.StreamFrom(kFirst);
    kernels().noise_ceilings({.key = stream.key,
                              .counter = {stream.counter[0], stream.counter[1],
                                          stream.counter[2], stream.counter[3]},
                              .panels = kPanels,
                              .ceilings = ceilings.data()});
    for (int64_t i = 0; i < kPanels * kPanelOutputs; ++i) {
      const double g = noise(kFirst + static_cast<TokenId>(i));
      ASSERT_GT(ceilings[i], g) << i;
      if (g > 3) {
        ASSERT_LT(ceilings[i], g + 0.1) << i;
      }
    }
  }
}

}  // namespace
}  // namespace espalier::nn
