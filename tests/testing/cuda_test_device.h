// The device on which tests run the CUDA backend.
#ifndef ESPALIER_TESTS_TESTING_CUDA_TEST_DEVICE_H_
#define ESPALIER_TESTS_TESTING_CUDA_TEST_DEVICE_H_

#include <cstdlib>
#include <string>

#include "absl/base/config.h"
#include "common/cuda/open_emulated_device.h"

namespace espalier::testing {

// $ESPALIER_TEST_DEVICE, "cuda" on a machine with a GPU; default "emulated".
inline std::string CudaTestDevice() {
  const char* const set = std::getenv("ESPALIER_TEST_DEVICE");
  return set != nullptr ? set : "emulated";
}

// ThreadSanitizer does not know of the emulation's fibers.
inline bool HasCudaTestDevice() {
#if defined(ABSL_HAVE_THREAD_SANITIZER)
  return CudaTestDevice() != "emulated";
#else
  return CudaTestDevice() != "emulated" || cuda::OpenEmulatedDevice().ok();
#endif
}

// AddressSanitizer makes emulated kernels ten times slower. Then suites take
// one model of those that run the same code.
#if defined(ABSL_HAVE_ADDRESS_SANITIZER)
inline constexpr bool kCudaTestsAreSlow = true;
#else
inline constexpr bool kCudaTestsAreSlow = false;
#endif

// Where several models run the same code, the cases of all but one have this
// before their names: the emulated device is slow, so they run nightly there.
inline const char* NightlyWhereEmulated() {
  return CudaTestDevice() == "emulated" ? "Nightly_" : "";
}

}  // namespace espalier::testing

#endif  // ESPALIER_TESTS_TESTING_CUDA_TEST_DEVICE_H_
