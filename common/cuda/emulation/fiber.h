#ifndef ESPALIER_COMMON_CUDA_EMULATION_FIBER_H_
#define ESPALIER_COMMON_CUDA_EMULATION_FIBER_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

namespace espalier::cuda::emulation {

// Stacks of fibers that ended, for the next ones. Not thread-safe.
class StackPool {
 public:
  static constexpr size_t kStackBytes = 256 << 10;

  StackPool() = default;
  ~StackPool();
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;

  std::byte* Take();  // [kStackBytes]
  void Return(std::byte* stack);

 private:
  std::vector<std::byte*> free_;
};

// A function with a stack of its own that can stop in its middle. The OS thread
// that made it resumes it. Must have ended when it is destroyed, or never have
// been resumed.
class Fiber {
 public:
  Fiber(StackPool& stacks, std::function<void()> body);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Runs the body until it suspends or ends.
  void Resume();
  // By the body: back to Resume's caller.
  void Suspend();

  bool ended() const { return ended_; }

 private:
  static void Enter();
  void Leave(bool for_good);

  StackPool& stacks_;
  const std::function<void()> body_;
  std::byte* const stack_;
  void* stack_pointer_ = nullptr;
  void* caller_stack_pointer_ = nullptr;
  bool ended_ = false;

  // What AddressSanitizer wants to know of stacks that change.
  void* fake_stack_ = nullptr;
  const void* caller_stack_ = nullptr;
  size_t caller_stack_bytes_ = 0;
};

}  // namespace espalier::cuda::emulation

#endif  // ESPALIER_COMMON_CUDA_EMULATION_FIBER_H_
