#include "common/nn/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <chrono>

#include "common/base/check.h"
#include "common/base/spin.h"

namespace espalier::nn {
namespace {

using Clock = std::chrono::steady_clock;

// Longer than the gap between two loops of a pass, shorter than anybody else
// on the machine would notice.
constexpr auto kSpin = std::chrono::microseconds(50);

// Returns when `value` is not `old` any more: spins, then sleeps.
void WaitWhile(const std::atomic<uint32_t>& value, uint32_t old) {
  const auto is_over = [&] {
    return value.load(std::memory_order_acquire) != old;
  };
  const Clock::time_point deadline = Clock::now() + kSpin;
  SpinUntil(is_over, [&] { return Clock::now() >= deadline; });
  value.wait(old, std::memory_order_acquire);
}

void PinTo(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  // Best effort: an unpinned worker is only slower.
  pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

}  // namespace

std::vector<int> UsableCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(/*pid=*/0, sizeof(set), &set) != 0) return {0};
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

ThreadPool::ThreadPool(const Options& options) {
  const std::vector<int> cpus = UsableCpus();
  const int64_t num_cpus = static_cast<int64_t>(cpus.size());
  const int64_t threads = options.threads > 0 ? options.threads : num_cpus;
  const bool pin = options.pin_workers && threads <= num_cpus;
  shares_ = std::vector<Share>(threads);
  if (pin && threads > 1) caller_cpu_ = cpus[0];
  for (int64_t thread = 1; thread < threads; ++thread) {
    const int cpu = pin ? cpus[thread] : -1;
    workers_.emplace_back([this, thread, cpu] {
      if (cpu >= 0) PinTo(cpu);
      Work(thread);
    });
  }
}

ThreadPool::CallerPin::CallerPin(const ThreadPool& pool) {
  pinned_ = pool.caller_cpu_ >= 0 &&
            sched_getaffinity(/*pid=*/0, sizeof(before_), &before_) == 0;
  if (pinned_) PinTo(pool.caller_cpu_);
}

ThreadPool::CallerPin::~CallerPin() {
  if (pinned_) sched_setaffinity(/*pid=*/0, sizeof(before_), &before_);
}

ThreadPool::~ThreadPool() {
  stop_.store(true, std::memory_order_relaxed);
  for (Share& share : shares_) WakeUp(share);
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::ParallelFor(int64_t size, int64_t grain, Body body) {
  ESPALIER_CHECK(grain >= 1);
  if (size <= 0) return;
  if (workers_.empty() || size <= grain) {
    body({.begin = 0, .end = size, .thread = 0});
    return;
  }
  const int64_t turns =
      ((size + grain - 1) / grain + threads() - 1) / threads();
  const int64_t chunks = std::min(size, turns * threads());
  ESPALIER_CHECK(chunks <= UINT16_MAX);
  unfinished_.store(static_cast<uint32_t>(chunks), std::memory_order_relaxed);
  ++loop_;
  for (int64_t thread = 0; thread < threads(); ++thread) {
    Share& share = shares_[thread];
    share.body.store(&body, std::memory_order_relaxed);
    share.size.store(size, std::memory_order_relaxed);
    share.chunks.store(chunks, std::memory_order_relaxed);
    const uint64_t begin = chunks * thread / threads();
    const uint64_t end = chunks * (thread + 1) / threads();
    share.unclaimed.store(loop_ << 32 | end << 16 | begin,
                          std::memory_order_release);
    WakeUp(share);
  }

  RunChunks(/*thread=*/0);
  for (;;) {
    const uint32_t left = unfinished_.load(std::memory_order_acquire);
    if (left == 0) return;
    WaitWhile(unfinished_, left);
  }
}

void ThreadPool::WakeUp(Share& share) {
  share.wake_ups.store(share.wake_ups.load(std::memory_order_relaxed) + 1,
                       std::memory_order_release);
  share.wake_ups.notify_one();
}

void ThreadPool::RunChunks(int64_t thread) {
  for (int64_t i = 0; i < threads(); ++i) {
    Share& share = shares_[(thread + i) % threads()];
    const uint32_t done = RunShare(share, /*from_end=*/i > 0, thread);
    // Until they are reported, no other loop can begin: all are of this one.
    if (done > 0 &&
        unfinished_.fetch_sub(done, std::memory_order_acq_rel) == done) {
      unfinished_.notify_one();
    }
  }
}

uint32_t ThreadPool::RunShare(Share& share, bool from_end, int64_t thread) {
  uint32_t done = 0;
  uint64_t state = share.unclaimed.load(std::memory_order_acquire);
  for (;;) {
    const int64_t first = state & 0xFFFF, end = state >> 16 & 0xFFFF;
    if (first == end) return done;
    const Body* body = share.body.load(std::memory_order_relaxed);
    const int64_t size = share.size.load(std::memory_order_relaxed);
    const int64_t chunks = share.chunks.load(std::memory_order_relaxed);
    const int64_t chunk = from_end ? end - 1 : first;
    const uint64_t rest = from_end ? state - (1 << 16) : state + 1;
    if (!share.unclaimed.compare_exchange_weak(state, rest,
                                               std::memory_order_acq_rel,
                                               std::memory_order_acquire)) {
      continue;
    }
    (*body)({.begin = size * chunk / chunks,
             .end = size * (chunk + 1) / chunks,
             .thread = thread});
    ++done;
    state = share.unclaimed.load(std::memory_order_acquire);
  }
}

void ThreadPool::Work(int64_t thread) {
  const std::atomic<uint32_t>& wake_ups = shares_[thread].wake_ups;
  for (uint32_t seen = 0;;) {
    WaitWhile(wake_ups, seen);
    seen = wake_ups.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_relaxed)) return;
    RunChunks(thread);
  }
}

}  // namespace espalier::nn
