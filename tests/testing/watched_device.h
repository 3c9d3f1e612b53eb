#ifndef ESPALIER_TESTS_TESTING_WATCHED_DEVICE_H_
#define ESPALIER_TESTS_TESTING_WATCHED_DEVICE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "common/base/check.h"
#include "common/cuda/compute_device.h"
#include "common/model/cuda/open_device.h"

namespace espalier::testing {

// A device that counts what it is asked, and fails when it is told to.
class WatchedDevice final : public cuda::ComputeDevice {
 public:
  explicit WatchedDevice(const std::string& name = "emulated") {
    auto opened = OpenComputeDevice(name);
    ESPALIER_CHECK(opened.ok());
    inner_ = *std::move(opened);
  }

  cuda::DeviceInfo info() const override { return inner_->info(); }
  absl::StatusOr<std::byte*> Allocate(int64_t bytes,
                                      cuda::Memory kind) override {
    ++allocations;
    if (is_full) return absl::ResourceExhaustedError("no room");
    return inner_->Allocate(bytes, kind);
  }
  void Free(std::byte* memory) override { inner_->Free(memory); }
  absl::StatusOr<std::string> Export(const std::byte* shared) override {
    return inner_->Export(shared);
  }
  absl::StatusOr<std::byte*> Import(absl::string_view handle,
                                    int64_t bytes) override {
    return inner_->Import(handle, bytes);
  }
  void Copy(void* to, const void* from, int64_t bytes) override {
    if (bytes > 0) ++copies;
    inner_->Copy(to, from, bytes);
    if (after_copy == nullptr) return;
    ESPALIER_CHECK(inner_->Wait(inner_->Record()).ok());
    after_copy(bytes);
  }
  void Launch(const cuda::KernelArgs& args) override {
    ++(std::holds_alternative<cuda::MailArgs>(args) ? copies : launches);
    inner_->Launch(args);
  }
  absl::StatusOr<std::unique_ptr<cuda::KernelGraph>> Capture(
      absl::Span<const cuda::KernelArgs> kernels) override {
    ++captures;
    if (!makes_graphs) return absl::InternalError("no graph");
    auto graph = inner_->Capture(kernels);
    if (!graph.ok()) return graph;
    return std::make_unique<Graph>(*this, *std::move(graph));
  }
  int64_t Record() override { return inner_->Record(); }
  absl::Status Wait(int64_t event) override {
    NoteWait(event);
    if (is_lost) return absl::UnavailableError("lost");
    return inner_->Wait(event);
  }
  absl::Status WaitForFlag(const uint32_t* flag, uint32_t number,
                           int64_t event) override {
    NoteWait(event);
    if (is_lost) return absl::UnavailableError("lost");
    return inner_->WaitForFlag(flag, number, event);
  }

  int allocations = 0;
  int copies = 0;  // by kernels as well
  int waits = 0;   // for what nobody has waited for before
  int launches = 0, captures = 0, replays = 0;  // of graphs
  bool is_full = false, is_lost = false, makes_graphs = true;
  // If set: each copy is done at once, then this is called.
  std::function<void(int64_t bytes)> after_copy = nullptr;

 private:
  class Graph final : public cuda::KernelGraph {
   public:
    Graph(WatchedDevice& device, std::unique_ptr<cuda::KernelGraph> inner)
        : device_(device), inner_(std::move(inner)) {}
    void Replay() override {
      ++device_.replays;
      inner_->Replay();
    }

   private:
    WatchedDevice& device_;
    const std::unique_ptr<cuda::KernelGraph> inner_;
  };

  void NoteWait(int64_t event) {
    if (event > waited_) ++waits;
    waited_ = std::max(waited_, event);
  }

  std::unique_ptr<cuda::ComputeDevice> inner_;
  int64_t waited_ = 0;  // the last event
};

}  // namespace espalier::testing

#endif  // ESPALIER_TESTS_TESTING_WATCHED_DEVICE_H_
