#ifndef ESPALIER_TESTS_COMMON_NN_KERNEL_TESTING_H_
#define ESPALIER_TESTS_COMMON_NN_KERNEL_TESTING_H_

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "common/nn/bf16.h"
#include "common/nn/cpu_backend.h"
#include "gtest/gtest.h"

namespace espalier::nn {

// A test with this parameter runs on every backend that the CPU can run.
class KernelTest : public ::testing::TestWithParam<const Kernels*> {
 protected:
  const Kernels& kernels() const { return *GetParam(); }

  std::vector<float> Random(int64_t size, float scale = 1) {
    std::uniform_real_distribution<float> uniform(-scale, scale);
    std::vector<float> values(size);
    for (float& value : values) value = uniform(random_);
    return values;
  }
  // Representable in bf16.
  std::vector<float> RandomBf16(int64_t size, float scale = 1) {
    std::vector<float> values = Random(size, scale);
    for (float& value : values) value = Bf16ToFloat(FloatToBf16(value));
    return values;
  }

  std::mt19937 random_{7};
};

inline std::string BackendName(
    const ::testing::TestParamInfo<const Kernels*>& info) {
  return info.param->name;
}

#define ESPALIER_TEST_ALL_BACKENDS(fixture)   \
  INSTANTIATE_TEST_SUITE_P(Backends, fixture, \
                           ::testing::ValuesIn(UsableBackends()), BackendName)

}  // namespace espalier::nn

#endif  // ESPALIER_TESTS_COMMON_NN_KERNEL_TESTING_H_
