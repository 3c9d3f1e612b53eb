#ifndef ESPALIER_COMMON_NN_THREAD_POOL_H_
#define ESPALIER_COMMON_NN_THREAD_POOL_H_

#include <sched.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"

namespace espalier::nn {

// CPUs that this process may use: a container's share, not the machine's.
std::vector<int> UsableCpus();

// The threads of one engine. A decoder runs some hundred short loops per pass,
// so a worker that has nothing to do spins for some microseconds before it
// sleeps. Every thread is dealt a range, which it runs in ascending order: what
// it fetches ahead is its own. One that has ended steals from the far ends of
// the others' ranges, and the caller waits for claimed chunks only: where cores
// are shared, a worker that the kernel keeps waiting costs nothing but its
// help.
//
// One thread, the owner's, calls ParallelFor; it takes part in the work.
class ThreadPool {
 public:
  struct Options {
    int64_t threads = 0;  // the caller included; 0: one per usable CPU
    // Worker i stays on the process's i-th CPU, as long as there are enough;
    // the caller is on the first one while it holds a CallerPin.
    bool pin_workers = true;
  };

  // Keeps the thread that made it where no worker is pinned, until it dies.
  // Without it the kernel may put both on one core for milliseconds.
  class CallerPin {
   public:
    explicit CallerPin(const ThreadPool& pool);
    ~CallerPin();
    CallerPin(const CallerPin&) = delete;
    CallerPin& operator=(const CallerPin&) = delete;

   private:
    bool pinned_ = false;
    cpu_set_t before_;
  };

  // Indices begin .. end - 1, run by thread 0 <= thread < threads() (scratch
  // memory is indexed by it; 0 is the caller).
  struct Chunk {
    int64_t begin = 0;
    int64_t end = 0;
    int64_t thread = 0;
  };
  using Body = absl::FunctionRef<void(const Chunk&)>;

  explicit ThreadPool(const Options& options);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int64_t threads() const { return static_cast<int64_t>(shares_.size()); }

  // Cuts 0 .. size - 1 into chunks of one size, up to rounding and at most
  // `grain` (without workers: one chunk), and runs them all, on any thread.
  // Their number is a multiple of that of the threads if `size` allows it. What
  // happened before the call is visible to the body, what the body did is
  // visible after it.
  // REQUIRES: grain >= 1; at most 65535 chunks; not called from a body; the
  // body does not throw.
  void ParallelFor(int64_t size, int64_t grain, Body body);

 private:
  // A thread's part of the loop in progress, in one cache line: to hear of the
  // loop, to learn what it is and to claim a chunk is one way between caches.
  //
  // A thread that comes late may read the other members while the next loop is
  // being set up, hence the atomics; it uses them only if its claim succeeds,
  // and then they belong to the loop that it claimed from.
  struct alignas(64) Share {
    // Chunks that nobody has claimed: number of the loop << 32 | end << 16 |
    // begin.
    std::atomic<uint64_t> unclaimed{0};
    std::atomic<const Body*> body{nullptr};
    std::atomic<int64_t> size{0};
    std::atomic<int64_t> chunks{0};     // of the whole loop
    std::atomic<uint32_t> wake_ups{0};  // the thread waits for change
  };

  static void WakeUp(Share& share);
  void Work(int64_t thread);
  // Claims what it can and returns when nothing is left.
  void RunChunks(int64_t thread);
  // Runs chunks of one share until it is empty and returns their number.
  // `from_end`: as a thief.
  uint32_t RunShare(Share& share, bool from_end, int64_t thread);

  uint64_t loop_ = 0;                                // the caller's
  std::vector<Share> shares_;                        // by thread
  alignas(64) std::atomic<uint32_t> unfinished_{0};  // chunks of the loop
  alignas(64) std::atomic<bool> stop_{false};
  int caller_cpu_ = -1;  // -1: nobody is pinned
  std::vector<std::thread> workers_;
};

}  // namespace espalier::nn

#endif  // ESPALIER_COMMON_NN_THREAD_POOL_H_
