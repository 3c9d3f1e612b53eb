#include "tests/device/tuner.h"

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <variant>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/cuda/emulation/grid.h"
#include "common/cuda/emulation/resident_grid.h"

namespace espalier::cuda {
namespace {

void CheckGpu(int error) {
  if (error == 0) return;
  std::cerr << "the GPU failed: cudaError_t " << error << std::endl;
  std::exit(1);
}

class GpuQueue final : public VariantQueue {
 public:
  GpuQueue() { CheckGpu(OpenGpuQueue(&queue_)); }
  void Launch(const Variant& variant) override {
    CheckGpu(LaunchOnGpu(queue_, variant));
  }
  void Wait() override { CheckGpu(WaitForGpu(queue_)); }

 private:
  void* queue_ = nullptr;
};

class EmulatedQueue final : public VariantQueue {
 public:
  void Launch(const Variant& variant) override {
    LaunchVariant(
        EmulatedLauncher(
            [this](const LaunchShape& shape, std::function<void()> kernel) {
              const emulation::BlockShape of_block = {
                  .kernel = shape.kernel,
                  .grid = {shape.grid_x, shape.grid_y},
                  .threads = shape.threads,
                  .shared_bytes = shape.shared_bytes,
                  .seed = grids_.size()};
              if (shape.is_resident) {
                grids_.emplace_back(std::in_place_type<emulation::ResidentGrid>,
                                    of_block, std::move(kernel), stacks_);
              } else {
                grids_.emplace_back(std::in_place_type<emulation::Grid>,
                                    of_block, std::move(kernel), stacks_);
              }
            }),
        variant);
  }
  void Wait() override {
    for (; !grids_.empty(); grids_.pop_front()) {
      std::visit([](auto& grid) { grid.Finish(); }, grids_.front());
    }
  }

 private:
  emulation::StackPool stacks_;
  std::deque<std::variant<emulation::Grid, emulation::ResidentGrid>> grids_;
};

constexpr int kMaxRows = 2 * kMaxRowsOfBlock;

}  // namespace

std::unique_ptr<VariantQueue> OpenVariantQueue(bool emulated) {
  if (emulated) return std::make_unique<EmulatedQueue>();
  return std::make_unique<GpuQueue>();
}

DeviceArray<unsigned char> Tuner::NewRandom(int64_t bytes) {
  constexpr int kInputs = 512;
  constexpr int64_t kStripBytes = int64_t{2} * kInputs * kStripOutputs;
  const int64_t strips = (bytes + kStripBytes - 1) / kStripBytes;
  auto array = DeviceArray<unsigned char>::Make(*device_, strips * kStripBytes);
  ESPALIER_CHECK(array.ok());
  const auto rows = static_cast<int>(strips * kStripOutputs);
  device_->Launch(RandomWeightsArgs{.seed = 1,
                                    .scale = 0x1p-4f,
                                    .rows = rows,
                                    .outputs = rows,
                                    .inputs = kInputs,
                                    .out = array->data()});
  Wait();
  return *std::move(array);
}

void Tuner::Wait() {
  const absl::Status status = device_->Wait(device_->Record());
  if (status.ok()) return;
  std::cerr << status << std::endl;
  std::exit(1);
}

std::vector<double> Tuner::Compare(
    const std::vector<std::function<void(int)>>& forms) {
  const absl::Duration at_least = absl::Milliseconds(tiny_ ? 0 : 20);
  const int turns = tiny_ ? 1 : 7;
  std::vector<int> calls(forms.size());
  const auto run = [&](size_t form, int count) {
    const absl::Time start = absl::Now();
    for (int i = 0; i < count; ++i) forms[form](calls[form]++);
    queue_->Wait();
    return (absl::Now() - start) / count;
  };
  std::vector<double> least(forms.size(), 1e30);
  std::vector<int> counts;
  for (size_t form = 0; form < forms.size(); ++form) {
    const absl::Duration one = std::min(run(form, 1), run(form, 1));
    counts.push_back(static_cast<int>(
        std::clamp(absl::FDivDuration(at_least, one), 1.0, 1000.0)));
  }
  for (int turn = 0; turn < turns; ++turn) {
    for (size_t form = 0; form < forms.size(); ++form) {
      const absl::Duration each = run(form, counts[form]);
      least[form] = std::min(least[form], absl::ToDoubleMicroseconds(each));
    }
  }
  return least;
}

ProductMemory::ProductMemory(Tuner& tuner, int most_rows) {
  if (tuner.tiny()) {
    hidden = 128;
    layer = {{"qkv", 192, 128},
             {"o", 128, 128},
             {"gate_up", 384, 128, true},
             {"down", 128, 192}};
    head = {"head", 576, 128};
  } else {
    hidden = 4096;
    layer = {{"qkv", 6144, 4096},
             {"o", 4096, 4096},
             {"gate_up", 24576, 4096, true},
             {"down", 4096, 12288}};
    head = {"head", 151936, 4096};
  }
  ESPALIER_CHECK(most_rows <= kMaxRows);
  int64_t widest = 0, outputs = 0;
  for (const Shape& shape : layer) {
    widest = std::max<int64_t>({widest, shape.inputs, shape.outputs / 2});
    outputs = std::max<int64_t>(
        outputs,
        int64_t{ProductSplits(shape.outputs, shape.inputs)} * shape.outputs);
  }
  outputs = std::max<int64_t>(outputs, head.outputs);
  weights = tuner.NewRandom(tuner.tiny() ? 1 << 18 : int64_t{3} << 30);
  rows_in = tuner.NewRandom(2 * PaddedRows(most_rows) * widest);
  gated = tuner.New<unsigned char>(2 * PaddedRows(most_rows) * widest);
  parts = tuner.New<float>(PaddedRows(most_rows) * outputs);
}

ProductArgs ProductMemory::Of(const Shape& shape, int rows, int call) const {
  const int64_t bytes = int64_t{2} * shape.outputs * shape.inputs;
  const int64_t sets = weights.size() / bytes;
  ProductArgs args = {.weights = weights.data() + call % sets * bytes,
                      .activations = rows_in.data(),
                      .rows = rows,
                      .inputs = shape.inputs,
                      .outputs = shape.outputs};
  if (shape.gated) {
    args.gated = gated.data();
  } else {
    args.parts = parts.data();
  }
  return args;
}

std::vector<unsigned char> ProductMemory::Outputs(Tuner& tuner,
                                                  const Shape& shape,
                                                  int rows) const {
  if (shape.gated) {
    std::vector<unsigned char> bytes = tuner.ValuesOf(gated);
    bytes.resize(ActivationBytes(rows, shape.outputs / 2));
    return bytes;
  }
  const std::vector<float> sums = tuner.ValuesOf(parts);
  const auto* const begin = reinterpret_cast<const unsigned char*>(sums.data());
  return {begin, begin + int64_t{4} * rows * shape.outputs};
}

}  // namespace espalier::cuda
