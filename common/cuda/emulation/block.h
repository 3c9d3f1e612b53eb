#ifndef ESPALIER_COMMON_CUDA_EMULATION_BLOCK_H_
#define ESPALIER_COMMON_CUDA_EMULATION_BLOCK_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/cuda/emulation/fiber.h"
#include "common/cuda/emulation/ready_threads.h"
#include "common/cuda/emulation/shared_barrier.h"
#include "common/cuda/emulation/warpgroup.h"

namespace espalier::cuda::emulation {

struct Index {
  unsigned x = 1, y = 1, z = 1;

  unsigned count() const { return x * y * z; }
};

// The shape of a block of threads, as its kernel was launched.
struct BlockShape {
  const char* kernel = nullptr;
  Index grid;
  Index index = {};
  int threads = 0;          // whole warps
  size_t shared_bytes = 0;  // exactly so many are there
  uint64_t seed = 0;        // of the schedule
};

// A block of threads: fibers of one OS thread. Which of them goes on next, and
// when asynchronous copies and products take place, is drawn from the seed, so
// that a missing barrier, wait or fence shows as a result that depends on it.
// Shared memory starts as NaN. A broken rule of the device ends the process.
class Block {
 public:
  Block(const BlockShape& shape, const std::function<void()>& kernel,
        StackPool& stacks);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  // The kernel before may be under way: runs the threads until each waits for
  // it, or for one that does.
  void RunAhead();
  // The kernel before has ended: its threads may go on in steps.
  void EndPrevious();
  // Lets a thread, the lanes of a warp or a copy go on. False: this block alone
  // cannot go on.
  bool Step();
  bool ended() const { return alive_ == 0; }
  // All threads have ended: names the rules that the block has broken.
  void CheckEnd();
  // Returns whether a counter was added to since the last call.
  bool TakeCounted() { return std::exchange(counted_, false); }
  // A counter was added to: those who wait for one look at it again.
  void WakeCounterWaits();
  // Says how many threads wait for what.
  std::string Describe() const;

  // The methods that follow are for the block's own threads, while they run.
  static Block& Current() { return *current_block_; }
  [[noreturn]] static void Fail(const std::string& what);

  const BlockShape& shape() const { return shape_; }
  int thread() const { return current_; }
  unsigned char* shared() { return shared_; }
  // An address of shared memory is its offset.
  uint32_t AddressOf(const void* shared) const;
  unsigned char* At(uint32_t address, size_t bytes) {
    if (address + bytes > shape_.shared_bytes) Fail("beyond the shared memory");
    return shared_ + address;
  }

  // Threads that wait for each other.
  struct Rendezvous {
    std::array<ReadyThreads::Lanes, ReadyThreads::kMaxWarps> waiting = {};
    int count = 0;                // of those that wait
    const void* where = nullptr;  // the instruction that they wait at
  };
  // Waits for `expected` threads; the last of them acts before all go on.
  template <typename Action>
  void Meet(Rendezvous& rendezvous, int expected, const void* where,
            Action action);
  Rendezvous& all_threads() { return all_threads_; }
  // A warp's lanes show each other what `arguments` point at; the last acts for
  // all of them.
  template <typename Arguments>
  void MeetInWarp(Arguments& arguments, void (*action)(Arguments**));
  // Lets the four warps of a warpgroup meet.
  void MeetInWarpgroup(const std::function<void()>& action);
  // Gives each thread of a warpgroup so many registers, as soon as those of all
  // warpgroups fit a multiprocessor. All start with an equal share.
  void SetRegisters(int registers);

  void WaitForPrevious();
  // Has this thread go on later, as any that is ready.
  void LetOthersGoOn();
  // Until something has happened to a barrier.
  void Poll();
  // 16-byte pieces; read and written later, before the barrier says so.
  void BeginCopy(const CopyInFlight& copy);

  // Has a bulk copy of the same bytes to follow.
  struct Hint {
    const void* from = nullptr;
    size_t bytes = 0;
    bool operator==(const Hint&) const = default;
  };
  void NoteHint(const Hint& hint);
  int hints() const { return hints_; }

  // Until something has happened to a counter in the device's memory.
  void PollCounter();
  void NoteCounterAdd() { counted_ = true; }
  // This thread saw a counter: copies that it begins need a fence first.
  void NoteCounterSeen() { unfenced_[current_] = true; }
  void FenceAsync() { unfenced_[current_] = false; }
  // Lets so many threads of the block meet at one of its named barriers.
  void MeetNamed(int barrier, int threads);

  BarrierTable& barriers() { return barriers_; }
  Warpgroup& warpgroup() { return warpgroups_[current_ / 128]; }

 private:
  struct Warp {
    std::array<void*, 32> arguments = {};
    ReadyThreads::Lanes waiting = 0;
    const void* where = nullptr;  // see Rendezvous
  };

  void MakeReady(int thread) { ready_.Add(thread / 32, 1u << thread % 32); }
  // All of them, and clears it.
  void MakeReady(std::vector<int>& threads);
  [[noreturn]] static void FailApart() {
    Fail("threads that have to meet are at different instructions");
  }
  void RunReady();
  // Another thread goes on: the next lane of the warp, if one can.
  void Suspend() {
    Fiber& thread = *threads_[current_];
    if (!ready_.goes_on_in_warp()) return thread.Suspend();
    current_ = ready_.TakeOfWarp();
    Fiber& next = *threads_[current_];
    if (&next != &thread) thread.HandOver(next);
  }
  bool LandCopy();
  void WakeIfPhaseEnded();
  bool RegistersFit(int of_current_group) const;

  static constinit inline thread_local Block* current_block_ = nullptr;

  const BlockShape shape_;
  Dice dice_;
  unsigned char* shared_ = nullptr;
  std::vector<std::optional<Fiber>> threads_;  // none is empty
  int alive_ = 0;
  int current_ = 0;
  ReadyThreads ready_;
  std::vector<int> polling_, polling_counters_, waiting_for_previous_,
      waiting_for_registers_;
  bool previous_ended_ = false;
  bool waited_for_previous_ = false;

  Rendezvous all_threads_;
  std::vector<Warp> warps_;
  std::vector<Warpgroup> warpgroups_;
  std::vector<Rendezvous> warpgroup_rendezvous_;
  std::vector<int> registers_;  // of a thread of each warpgroup
  struct Named {
    Rendezvous rendezvous;
    int threads = 0;  // that meet
  };
  std::array<Named, 16> named_;
  BarrierTable barriers_;
  std::vector<CopyInFlight> copies_;
  std::vector<Hint> open_hints_;  // no copy has followed yet
  int hints_ = 0;
  std::vector<bool> unfenced_;  // [threads]
  bool counted_ = false;
  uint64_t steps_per_copy_ = 0;  // 0: a copy lands when nobody can go on
};

template <typename Action>
void Block::Meet(Rendezvous& rendezvous, int expected, const void* where,
                 Action action) {
  if (rendezvous.count == 0) {
    rendezvous.where = where;
  } else if (rendezvous.where != where) {
    FailApart();
  }
  if (++rendezvous.count < expected) {
    rendezvous.waiting[current_ / 32] |= 1u << current_ % 32;
    Suspend();
    return;
  }
  action();
  for (size_t warp = 0; warp < warps_.size(); ++warp) {
    ready_.Add(warp, std::exchange(rendezvous.waiting[warp], 0));
  }
  rendezvous.count = 0;
}

template <typename Arguments>
void Block::MeetInWarp(Arguments& arguments, void (*action)(Arguments**)) {
  Warp& warp = warps_[current_ / 32];
  const auto* const where = reinterpret_cast<const void*>(action);
  if (warp.waiting == 0) {
    warp.where = where;
  } else if (warp.where != where) {
    FailApart();
  }
  warp.arguments[current_ % 32] = &arguments;
  const ReadyThreads::Lanes others = ~(1u << current_ % 32);
  if (warp.waiting != others) {
    warp.waiting |= ~others;
    Suspend();
    return;
  }
  action(reinterpret_cast<Arguments**>(warp.arguments.data()));
  ready_.Add(current_ / 32, std::exchange(warp.waiting, 0));
}

}  // namespace espalier::cuda::emulation

#endif  // ESPALIER_COMMON_CUDA_EMULATION_BLOCK_H_
