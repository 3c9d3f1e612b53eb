#include "common/cuda/cuda_device.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/base/machine_hash.h"
#include "common/base/mutex.h"
#include "common/cuda/launch/cuda_launch.h"
#include "common/cuda/resident_turn.h"

namespace espalier::cuda {
namespace {

std::string Describe(cudaError_t error) {
  return absl::StrCat(cudaGetErrorName(error), ": ", cudaGetErrorString(error));
}

// Returns the turn that all queues of this process on a GPU take.
ResidentTurn& TurnOf(int index) {
  static Mutex mutex;
  static auto* const turns = new std::map<int, ResidentTurn>;  // never deleted
  const MutexLock lock(&mutex);
  return (*turns)[index];
}

class CudaDevice final : public ComputeDevice, private ResidentTurn::Member {
 public:
  // `resident_blocks` and `carries_mail`: see DeviceInfo.
  CudaDevice(std::string name, uint64_t id, int index, cudaStream_t stream,
             const CudaDeviceOptions& options, int resident_blocks,
             bool carries_mail)
      : name_(std::move(name)),
        id_(id),
        index_(index),
        stream_(stream),
        options_(options),
        resident_blocks_(resident_blocks),
        carries_mail_(carries_mail),
        chains_attend_(options.chains_attend),
        turn_(TurnOf(index)) {}
  ~CudaDevice() override;

  DeviceInfo info() const override;
  absl::StatusOr<std::byte*> Allocate(int64_t bytes, Memory kind) override;
  void Free(std::byte* memory) override;
  absl::StatusOr<std::string> Export(const std::byte* shared) override;
  absl::StatusOr<std::byte*> Import(absl::string_view handle,
                                    int64_t bytes) override;
  void Copy(void* to, const void* from, int64_t bytes) override;
  void Launch(const KernelArgs& args) override;
  absl::StatusOr<std::unique_ptr<KernelGraph>> Capture(
      absl::Span<const KernelArgs> launches) override;
  int64_t Record() override;
  absl::Status Wait(int64_t event) override;
  absl::Status WaitForFlag(const uint32_t* flag, uint32_t number,
                           int64_t event) override;

 private:
  enum class Origin { kPool, kHost, kShared, kImported };
  class Graph;

  // Makes this GPU the one of the calls that follow. Threads start with
  // another, the first one.
  void Select() const { cudaSetDevice(index_); }

  cudaError_t LaunchNow(const KernelArgs& args) const {
    return static_cast<cudaError_t>(
        LaunchOnStream(stream_, args, options_.dependent_launches));
  }
  // Calls `queue`, which queues kernels of which some may stay.
  void QueueInTurn(bool some_stay, absl::FunctionRef<void()> queue) {
    some_stay ? turn_.Take(*this, queue) : queue();
  }
  void WaitFor(Member& other) override;
  cudaError_t CaptureNow(absl::Span<const KernelArgs> launches,
                         cudaGraph_t& graph);

  // Returns the first event that may be waited for.
  int64_t OldestEvent() const {
    return events_ - static_cast<int64_t>(recorded_.size()) + 1;
  }
  // All events up to this one are over.
  void Reuse(int64_t event);

  // The first error is the one that counts.
  void Note(cudaError_t error) {
    if (error_ == cudaSuccess) error_ = error;
  }

  const std::string name_;
  const uint64_t id_;
  const int index_;
  const cudaStream_t stream_;
  const CudaDeviceOptions options_;
  const int resident_blocks_;
  const bool carries_mail_;
  const bool chains_attend_;
  ResidentTurn& turn_;
  cudaEvent_t before_turn_ = nullptr;  // made when first waited for
  cudaError_t error_ = cudaSuccess;
  std::map<std::byte*, Origin> allocated_;
  int64_t events_ = 0;                // recorded so far
  std::deque<cudaEvent_t> recorded_;  // the last of them
  std::vector<cudaEvent_t> free_events_;
  int graphs_ = 0;  // that are alive
};

class CudaDevice::Graph final : public KernelGraph {
 public:
  Graph(CudaDevice& device, cudaGraphExec_t exec, bool some_stay)
      : device_(device), exec_(exec), some_stay_(some_stay) {
    ++device_.graphs_;
  }
  ~Graph() override {
    device_.Select();
    device_.Note(cudaStreamSynchronize(device_.stream_));
    device_.Note(cudaGraphExecDestroy(exec_));
    --device_.graphs_;
  }

  void Replay() override {
    device_.Select();
    device_.QueueInTurn(some_stay_, [this] {
      device_.Note(cudaGraphLaunch(exec_, device_.stream_));
    });
  }

 private:
  CudaDevice& device_;
  const cudaGraphExec_t exec_;
  const bool some_stay_;
};

CudaDevice::~CudaDevice() {
  Select();
  cudaStreamSynchronize(stream_);
  turn_.Leave(*this);
  if (before_turn_ != nullptr) cudaEventDestroy(before_turn_);
  ESPALIER_CHECK(allocated_.empty() && graphs_ == 0);
  free_events_.insert(free_events_.end(), recorded_.begin(), recorded_.end());
  for (cudaEvent_t event : free_events_) cudaEventDestroy(event);
  cudaStreamDestroy(stream_);
}

DeviceInfo CudaDevice::info() const {
  Select();
  size_t free = 0, total = 0;
  cudaMemGetInfo(&free, &total);
  return {.name = name_,
          .id = id_,
          .memory_bytes = static_cast<int64_t>(total),
          .free_bytes = static_cast<int64_t>(free),
          .resident_blocks = resident_blocks_,
          .carries_mail = carries_mail_,
          .chains_attend = chains_attend_};
}

absl::StatusOr<std::byte*> CudaDevice::Allocate(int64_t bytes, Memory kind) {
  Select();
  void* memory = nullptr;
  cudaError_t error = cudaSuccess;
  Origin origin = Origin::kPool;
  switch (kind) {
    case Memory::kDevice:
      error = cudaMallocAsync(&memory, bytes, stream_);
      break;
    case Memory::kHost:
      error = cudaMallocHost(&memory, bytes);
      origin = Origin::kHost;
      break;
    case Memory::kShared:
      error = cudaMalloc(&memory, bytes);
      origin = Origin::kShared;
      break;
  }
  if (error != cudaSuccess) {
    cudaGetLastError();  // the device goes on
    return absl::ResourceExhaustedError(absl::StrCat(
        "no room for ", bytes, " bytes on ", name_, ": ", Describe(error)));
  }
  auto* const start = static_cast<std::byte*>(memory);
  allocated_[start] = origin;
  return start;
}

void CudaDevice::Free(std::byte* memory) {
  Select();
  const auto found = allocated_.find(memory);
  ESPALIER_CHECK(found != allocated_.end());
  if (found->second != Origin::kPool) Note(cudaStreamSynchronize(stream_));
  switch (found->second) {
    case Origin::kPool:
      Note(cudaFreeAsync(memory, stream_));
      break;
    case Origin::kHost:
      Note(cudaFreeHost(memory));
      break;
    case Origin::kShared:
      Note(cudaFree(memory));
      break;
    case Origin::kImported:
      Note(cudaIpcCloseMemHandle(memory));
      break;
  }
  allocated_.erase(found);
}

absl::StatusOr<std::string> CudaDevice::Export(const std::byte* shared) {
  Select();
  cudaIpcMemHandle_t handle;
  const cudaError_t error =
      cudaIpcGetMemHandle(&handle, const_cast<std::byte*>(shared));
  if (error == cudaSuccess) return std::string(handle.reserved, sizeof(handle));
  cudaGetLastError();  // the device goes on
  return absl::FailedPreconditionError(
      absl::StrCat("memory of ", name_, " for others: ", Describe(error)));
}

// The driver maps all of it and does not say how much that is.
absl::StatusOr<std::byte*> CudaDevice::Import(absl::string_view handle,
                                              int64_t /*bytes*/) {
  cudaIpcMemHandle_t theirs;
  if (handle.size() != sizeof(theirs)) {
    return absl::FailedPreconditionError(
        absl::StrCat("a handle of CUDA memory has ", sizeof(theirs),
                     " bytes, not ", handle.size()));
  }
  std::copy(handle.begin(), handle.end(), theirs.reserved);
  Select();
  void* memory = nullptr;
  cudaError_t error =
      cudaIpcOpenMemHandle(&memory, theirs, cudaIpcMemLazyEnablePeerAccess);
  if (error != cudaSuccess) {
    cudaGetLastError();  // the device goes on
    return absl::FailedPreconditionError(absl::StrCat(
        "memory of another process on ", name_, ": ", Describe(error)));
  }
  auto* const start = static_cast<std::byte*>(memory);
  allocated_[start] = Origin::kImported;
  return start;
}

void CudaDevice::Copy(void* to, const void* from, int64_t bytes) {
  if (bytes == 0) return;
  Select();
  Note(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_));
}

bool Stays(const KernelArgs& args) {
  return std::holds_alternative<ChainArgs>(args) ||
         std::holds_alternative<LayerChainArgs>(args);
}

void CudaDevice::Launch(const KernelArgs& args) {
  Select();
  QueueInTurn(Stays(args), [&] { Note(LaunchNow(args)); });
}

// The other queue's thread may queue more meanwhile, which is not waited for.
void CudaDevice::WaitFor(Member& other) {
  if (before_turn_ == nullptr) {
    Note(cudaEventCreateWithFlags(&before_turn_, cudaEventDisableTiming));
  }
  Note(cudaEventRecord(before_turn_, static_cast<CudaDevice&>(other).stream_));
  Note(cudaStreamWaitEvent(stream_, before_turn_));
}

// The work that other threads do meanwhile is not captured, nor forbidden to
// them; but none of them may wait for this stream.
cudaError_t CudaDevice::CaptureNow(absl::Span<const KernelArgs> launches,
                                   cudaGraph_t& graph) {
  cudaError_t error =
      cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal);
  if (error != cudaSuccess) return error;
  for (const KernelArgs& args : launches) {
    const cudaError_t launched = LaunchNow(args);
    if (error == cudaSuccess) error = launched;
  }
  const cudaError_t ended = cudaStreamEndCapture(stream_, &graph);
  return error == cudaSuccess ? ended : error;
}

// The upload finds the room that the first replay would ask for.
absl::StatusOr<std::unique_ptr<KernelGraph>> CudaDevice::Capture(
    absl::Span<const KernelArgs> launches) {
  Select();
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  cudaError_t error = cudaSuccess;
  turn_.Hold([&] { error = CaptureNow(launches, graph); });
  if (error == cudaSuccess) error = cudaGraphInstantiate(&exec, graph, 0);
  if (error == cudaSuccess) error = cudaGraphUpload(exec, stream_);
  if (graph != nullptr) cudaGraphDestroy(graph);
  if (error == cudaSuccess) {
    return std::make_unique<Graph>(
        *this, exec, std::any_of(launches.begin(), launches.end(), Stays));
  }
  if (exec != nullptr) cudaGraphExecDestroy(exec);
  cudaGetLastError();  // the device goes on
  const std::string message =
      absl::StrCat("a graph of ", launches.size(), " kernels on ", name_, ": ",
                   Describe(error));
  if (error == cudaErrorMemoryAllocation) {
    return absl::ResourceExhaustedError(message);
  }
  return absl::InternalError(message);
}

int64_t CudaDevice::Record() {
  Select();
  cudaEvent_t event = nullptr;
  if (free_events_.empty()) {
    Note(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  } else {
    event = free_events_.back();
    free_events_.pop_back();
  }
  Note(cudaEventRecord(event, stream_));
  recorded_.push_back(event);
  return ++events_;
}

void CudaDevice::Reuse(int64_t event) {
  for (int64_t oldest = OldestEvent(); oldest <= event; ++oldest) {
    free_events_.push_back(recorded_.front());
    recorded_.pop_front();
  }
}

// Looks for a millisecond whether a kernel has raised the flag.
bool SeesFlag(const uint32_t* flag, uint32_t number) {
  const std::atomic_ref place(*const_cast<uint32_t*>(flag));
  const absl::Time end = absl::Now() + absl::Milliseconds(1);
  do {
    for (int look = 0; look < 64; ++look) {
      if (place.load(std::memory_order_acquire) == number) return true;
    }
  } while (absl::Now() < end);
  return false;
}

// A device that failed raises no flag, or one after a kernel that was never
// launched.
absl::Status CudaDevice::WaitForFlag(const uint32_t* flag, uint32_t number,
                                     int64_t event) {
  if (error_ != cudaSuccess || !SeesFlag(flag, number)) return Wait(event);
  Reuse(event);
  return absl::OkStatus();
}

absl::Status CudaDevice::Wait(int64_t event) {
  ESPALIER_CHECK(event > 0 && event <= events_);
  const int64_t oldest = OldestEvent();
  if (oldest <= event) Note(cudaEventSynchronize(recorded_[event - oldest]));
  Reuse(event);
  if (error_ == cudaSuccess) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat(name_, " failed: ", Describe(error_)));
}

// Memory that is freed stays with the process, so that what every pass
// allocates, such as its logits, is at hand without a wait.
cudaError_t KeepFreedMemory(int index) {
  cudaMemPool_t pool = nullptr;
  const cudaError_t error = cudaDeviceGetDefaultMemPool(&pool, index);
  if (error != cudaSuccess) return error;
  uint64_t all = UINT64_MAX;
  return cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ComputeDevice>> OpenCudaDevice(
    int index, const CudaDeviceOptions& options) {
  const auto failed = [index](cudaError_t error) {
    return absl::FailedPreconditionError(
        absl::StrCat("CUDA device ", index, ": ", Describe(error)));
  };
  cudaDeviceProp properties;
  cudaError_t error = cudaGetDeviceProperties(&properties, index);
  if (error != cudaSuccess) return failed(error);
  if (properties.major != 9 || properties.minor != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("CUDA device ", index, ", ", properties.name,
                     ", has compute capability ", properties.major, ".",
                     properties.minor, ": kernels are for 9.0 (H100, H200)"));
  }
  cudaStream_t stream = nullptr;
  error = cudaSetDevice(index);
  if (error == cudaSuccess) error = KeepFreedMemory(index);
  if (error == cudaSuccess)
    error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  if (error != cudaSuccess) return failed(error);
  const std::string uuid(properties.uuid.bytes, sizeof(properties.uuid.bytes));
  return std::make_unique<CudaDevice>(
      properties.name, SharedMemoryHash(uuid), index, stream, options,
      options.runs_chains && properties.cooperativeLaunch != 0
          ? properties.multiProcessorCount
          : 0,
      options.carries_mail && properties.unifiedAddressing != 0);
}

}  // namespace espalier::cuda
