// The tests of kernels share this. They run on the emulated device, and again
// on a GPU where there is one.
#ifndef ESPALIER_TESTS_COMMON_CUDA_DEVICE_TESTING_H_
#define ESPALIER_TESTS_COMMON_CUDA_DEVICE_TESTING_H_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <numbers>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/base/bf16.h"
#include "common/base/check.h"
#include "common/cuda/cuda_device.h"
#include "common/cuda/device_array.h"
#include "common/cuda/emulated_device.h"
#include "common/cuda/layout.h"
#include "gtest/gtest.h"

namespace espalier::cuda {

// The parameter: "emulated" or "cuda".
class DeviceTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "emulated") return;
    absl::StatusOr<std::unique_ptr<ComputeDevice>> opened = OpenCudaDevice(0);
    if (!opened.ok()) {
      GTEST_SKIP() << "no CUDA device to test: " << opened.status().message();
    }
    cuda_ = *std::move(opened);
  }

  // Returns a device. `seed` chooses an emulated schedule. Devices live until
  // the test ends.
  ComputeDevice& Device(uint64_t seed = 1) {
    if (cuda_ != nullptr) return *cuda_;
    emulated_.push_back(std::make_unique<EmulatedDevice>(
        EmulatedDevice::Options{.seed = seed}));
    return *emulated_.back();
  }

 private:
  std::unique_ptr<ComputeDevice> cuda_;
  std::vector<std::unique_ptr<EmulatedDevice>> emulated_;
};

inline std::string NameOfDevice(
    const ::testing::TestParamInfo<std::string>& info) {
  return info.param;
}
#define INSTANTIATE_FOR_DEVICES(Suite) \
  INSTANTIATE_TEST_SUITE_P(            \
      Devices, Suite, ::testing::Values("emulated", "cuda"), NameOfDevice)

inline void Finish(ComputeDevice& device) {
  const absl::Status status = device.Wait(device.Record());
  ESPALIER_CHECK(status.ok());
}

template <typename T>
DeviceArray<T> NewArray(ComputeDevice& device, int64_t size) {
  absl::StatusOr<DeviceArray<T>> array =
      DeviceArray<T>::Make(device, std::max<int64_t>(size, 1));
  ESPALIER_CHECK(array.ok());
  return *std::move(array);
}

// Returns an array with all bits set: NaN, whatever the type, on a GPU as well.
template <typename T>
DeviceArray<T> NanArray(ComputeDevice& device, int64_t size) {
  DeviceArray<T> array = NewArray<T>(device, size);
  std::vector<T> nan(array.size());
  std::memset(static_cast<void*>(nan.data()), 0xff, nan.size() * sizeof(T));
  array.Write(0, nan);
  Finish(device);
  return array;
}

template <typename T>
DeviceArray<T> ArrayOf(ComputeDevice& device, const std::vector<T>& values) {
  DeviceArray<T> array =
      NewArray<T>(device, static_cast<int64_t>(values.size()));
  array.Write(0, values);
  Finish(device);
  return array;
}

template <typename T>
std::vector<T> ValuesOf(ComputeDevice& device, const DeviceArray<T>& array) {
  std::vector<T> values(array.size());
  array.Read(0, absl::MakeSpan(values));
  Finish(device);
  return values;
}

template <typename T>
bool SameBits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

class Random {
 public:
  explicit Random(uint64_t seed) : bits_(seed) {}

  // Almost normal: the sum of four uniform numbers of 16 bits. The standard
  // library's distribution takes logarithms where nothing is optimised.
  float Normal() {
    const uint64_t bits = bits_();
    const auto sum =
        static_cast<float>((bits & 0xffff) + (bits >> 16 & 0xffff) +
                           (bits >> 32 & 0xffff) + (bits >> 48));
    return (sum * 0x1p-16f - 2) * std::numbers::sqrt3_v<float>;
  }
  uint16_t Bf16() { return FloatToBf16(Normal()); }
  int64_t Below(int64_t n) { return static_cast<int64_t>(bits_() % n); }
  std::vector<float> Normals(int64_t size, float scale = 1) {
    std::vector<float> values(size);
    for (float& value : values) value = scale * Normal();
    return values;
  }
  std::vector<uint16_t> Bf16s(int64_t size) {
    std::vector<uint16_t> values(size);
    for (uint16_t& value : values) value = Bf16();
    return values;
  }

 private:
  std::mt19937_64 bits_;
};

// [outputs, inputs] bf16 as a product reads them.
inline std::vector<unsigned char> PackWeights(const std::vector<uint16_t>& w,
                                              int outputs, int inputs) {
  std::vector<unsigned char> packed(w.size() * 2);
  for (int o = 0; o < outputs; ++o) {
    for (int i = 0; i < inputs; ++i) {
      std::memcpy(&packed[WeightPlace(inputs, o, i)],
                  &w[int64_t{o} * inputs + i], 2);
    }
  }
  return packed;
}

// [rows, columns] as activations for passes of `of_rows` rows. What pads them
// is NaN.
inline std::vector<unsigned char> PackActivations(
    const std::vector<uint16_t>& x, int rows, int columns) {
  std::vector<unsigned char> packed(ActivationBytes(rows, columns), 0xff);
  for (int row = 0; row < rows; ++row) {
    for (int i = 0; i < columns; ++i) {
      std::memcpy(&packed[ActivationPlace(RowBlock(rows), columns, row, i)],
                  &x[int64_t{row} * columns + i], 2);
    }
  }
  return packed;
}
inline uint16_t ActivationAt(const std::vector<unsigned char>& packed, int rows,
                             int columns, int row, int column) {
  uint16_t bits;
  std::memcpy(
      &bits, &packed[ActivationPlace(RowBlock(rows), columns, row, column)], 2);
  return bits;
}

// sqrt(sum of squared errors / sum of squares). NaN: not good.
class RelativeError {
 public:
  void Add(double got, double wanted) {
    errors_ += (got - wanted) * (got - wanted);
    squares_ += wanted * wanted;
  }
  double value() const { return std::sqrt(errors_ / squares_); }

 private:
  double errors_ = 0, squares_ = 0;
};

}  // namespace espalier::cuda

#endif  // ESPALIER_TESTS_COMMON_CUDA_DEVICE_TESTING_H_
