#ifndef ESPALIER_TESTS_COMMON_NN_KERNEL_TESTING_H_
#define ESPALIER_TESTS_COMMON_NN_KERNEL_TESTING_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "common/base/bf16.h"
#include "common/nn/cpu_backend.h"
#include "gtest/gtest.h"
#include "tests/common/nn/amx_model.h"
#include "tests/common/nn/operand_rows.h"

namespace espalier::nn {

// Returns values from -scale to scale, of 24 random bits each: the standard
// library's distribution takes a logarithm for every value where nothing is
// optimised.
inline std::vector<float> UniformValues(int64_t size, float scale,
                                        std::mt19937& random) {
  std::vector<float> values(size);
  for (float& value : values) {
    const auto bits = static_cast<float>(random() >> 8);
    value = scale * (bits * 0x1p-23f - 1);
  }
  return values;
}

class KernelValues {
 protected:
  std::vector<float> Random(int64_t size, float scale = 1) {
    return UniformValues(size, scale, random_);
  }
  // Representable in bf16.
  std::vector<float> RandomBf16(int64_t size, float scale = 1) {
    std::vector<float> values = Random(size, scale);
    for (float& value : values) value = Bf16ToFloat(FloatToBf16(value));
    return values;
  }

  std::mt19937 random_{7};
};

// Returns the backends that the CPU can run, and AMX in software.
inline std::vector<const Kernels*> BackendsAndAmxModel() {
  std::vector<const Kernels*> backends = UsableBackends();
  backends.push_back(&AmxModelKernels());
  return backends;
}

// A test with this parameter runs on all backends.
class KernelTest : public KernelValues,
                   public ::testing::TestWithParam<const Kernels*> {
 protected:
  const Kernels& kernels() const { return *GetParam(); }
};

// Largest relative rounding of an element.
inline double OperandError(OperandType type) {
  switch (type) {
    case OperandType::kFloat32:
      return 0;
    case OperandType::kBf16:
      return 0x1p-8;
    case OperandType::kSplitBf16:
      return 0x1p-16;
    case OperandType::kBlocks:
    case OperandType::kFineBlocks:
      break;
  }
  return 0;
}

// A test's name may have no dash.
inline std::string IdentifierOf(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

inline std::string BackendName(
    const ::testing::TestParamInfo<const Kernels*>& info) {
  return IdentifierOf(info.param->name);
}

#define ESPALIER_TEST_ALL_BACKENDS(fixture)   \
  INSTANTIATE_TEST_SUITE_P(Backends, fixture, \
                           ::testing::ValuesIn(UsableBackends()), BackendName)

// Runs the tests of products and of attention over every backend and the model
// of AMX.
#define ESPALIER_TEST_ALL_BACKENDS_AND_AMX_MODEL(fixture)              \
  INSTANTIATE_TEST_SUITE_P(Backends, fixture,                          \
                           ::testing::ValuesIn(BackendsAndAmxModel()), \
                           BackendName)

}  // namespace espalier::nn

#endif  // ESPALIER_TESTS_COMMON_NN_KERNEL_TESTING_H_
