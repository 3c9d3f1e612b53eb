#ifndef ESPALIER_TESTS_DEVICE_TUNER_H_
#define ESPALIER_TESTS_DEVICE_TUNER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "common/base/check.h"
#include "common/cuda/compute_device.h"
#include "common/cuda/device_array.h"
#include "common/cuda/layout.h"
#include "tests/device/variants.h"

namespace espalier::cuda {

// A queue of kernels and their variants. A device that fails ends the process.
// One thread.
class VariantQueue {
 public:
  virtual ~VariantQueue() = default;
  virtual void Launch(const Variant& variant) = 0;
  virtual void Wait() = 0;
};
std::unique_ptr<VariantQueue> OpenVariantQueue(bool emulated);

// Says what an experiment has found of one form of a kernel.
struct Finding {
  std::string form = "";       // that is compared with another one
  std::string figure = "";     // what was measured
  std::string threshold = "";  // that the figure has to meet for the form
  bool is_taken = false;
  std::string line = "";      // of the source, for this decision
  bool is_in_source = false;  // the source has that line
};

// Memory on a device, and times of what is queued there.
class Tuner {
 public:
  // tiny: on the emulation, where no time means anything.
  Tuner(std::unique_ptr<ComputeDevice> device,
        std::unique_ptr<VariantQueue> queue, bool tiny)
      : tiny_(tiny), device_(std::move(device)), queue_(std::move(queue)) {}

  bool tiny() const { return tiny_; }

  // Starts as zeros.
  template <typename T>
  DeviceArray<T> New(int64_t size) {
    return NewOf(std::vector<T>(size));
  }
  template <typename T>
  DeviceArray<T> NewOf(const std::vector<T>& values) {
    auto array = DeviceArray<T>::Make(*device_, std::ssize(values));
    ESPALIER_CHECK(array.ok());
    array->Write(0, values);
    Wait();
    return *std::move(array);
  }
  // Returns small bf16 numbers, at least so many bytes.
  DeviceArray<unsigned char> NewRandom(int64_t bytes);

  template <typename T>
  std::vector<T> ValuesOf(const DeviceArray<T>& array) {
    queue_->Wait();
    std::vector<T> values(array.size());
    array.Read(0, absl::MakeSpan(values));
    Wait();
    return values;
  }

  void Launch(const Variant& variant) { queue_->Launch(variant); }
  void WaitForLaunches() { queue_->Wait(); }

  // Returns the microseconds of one of many calls of each function, the least
  // of several turns: turns take turns, so that a clock that changes changes
  // all. A function is told how often it was called.
  std::vector<double> Compare(
      const std::vector<std::function<void(int)>>& forms);

 private:
  void Wait();

  const bool tiny_;
  const std::unique_ptr<ComputeDevice> device_;  // outlives its arrays
  const std::unique_ptr<VariantQueue> queue_;
};

// The weights of a model's products, more than a cache holds, and their rows.
struct ProductMemory {
  ProductMemory(Tuner& tuner, int most_rows);

  struct Shape {
    const char* name;
    int outputs, inputs;
    bool gated = false;
  };
  // call: takes other weights each time.
  ProductArgs Of(const Shape& shape, int rows, int call) const;
  // Returns the bits of the sums, or of what was gated.
  std::vector<unsigned char> Outputs(Tuner& tuner, const Shape& shape,
                                     int rows) const;

  std::vector<Shape> layer;  // qkv, o, gate_up, down
  Shape head;
  int hidden;
  DeviceArray<unsigned char> weights, rows_in, gated;
  DeviceArray<float> parts;
};

// The experiments. Each returns its findings, one for each decision.
using Experiment = std::function<std::vector<Finding>(Tuner&)>;
std::vector<Finding> TuneWidths(Tuner& tuner);
std::vector<Finding> TuneTiles(Tuner& tuner);
std::vector<Finding> TuneCache(Tuner& tuner);
std::vector<Finding> TuneBlocks(Tuner& tuner);
std::vector<Finding> TuneNorms(Tuner& tuner);
std::vector<Finding> TuneSums(Tuner& tuner);
std::vector<Finding> TuneChunks(Tuner& tuner);
std::vector<Finding> TuneChain(Tuner& tuner);
std::vector<Finding> TuneClusters(Tuner& tuner);
std::vector<Finding> TuneHints(Tuner& tuner);
std::vector<Finding> TuneHandOver(Tuner& tuner);
std::vector<Finding> TuneMail(Tuner& tuner);

}  // namespace espalier::cuda

#endif  // ESPALIER_TESTS_DEVICE_TUNER_H_
