#include "common/cuda/emulation/block.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "common/base/check.h"

namespace espalier::cuda::emulation {
namespace {

// What a multiprocessor has, and a thread may have.
constexpr int kRegisters = 65536, kMaxThreadRegisters = 255;

}  // namespace

void Block::Fail(const std::string& what) {
  if (current_block_ != nullptr) {
    const BlockShape& shape = current_block_->shape_;
    std::fprintf(stderr, "emulated kernel %s, block (%u, %u, %u), thread %d: ",
                 shape.kernel, shape.index.x, shape.index.y, shape.index.z,
                 current_block_->current_);
  }
  std::fprintf(stderr, "%s\n", what.c_str());
  std::abort();
}

Block::Block(const BlockShape& shape, const std::function<void()>& kernel,
             StackPool& stacks)
    : shape_(shape),
      dice_(shape.seed),
      threads_(shape.threads),
      alive_(shape.threads),
      ready_(shape.threads / 32, dice_),
      warps_(shape.threads / 32),
      warpgroups_((shape.threads + 127) / 128),
      warpgroup_rendezvous_(warpgroups_.size()),
      registers_(
          warpgroups_.size(),
          std::min(kMaxThreadRegisters, kRegisters / shape.threads) / 8 * 8),
      unfenced_(shape.threads) {
  ESPALIER_CHECK(shape.threads > 0 && shape.threads % 32 == 0);
  constexpr uint64_t kSteps[] = {2, 64, 0};
  steps_per_copy_ = kSteps[dice_.Draw(3)];
  void* memory = nullptr;
  ESPALIER_CHECK(posix_memalign(&memory, 1024, shape.shared_bytes) == 0);
  shared_ = static_cast<unsigned char*>(memory);
  std::memset(shared_, 0xff, shape.shared_bytes);
  for (int i = 0; i < shape.threads; ++i) {
    threads_[i].emplace(stacks, kernel);
    MakeReady(i);
  }
}

void Block::MakeReady(std::vector<int>& threads) {
  for (int thread : threads) MakeReady(thread);
  threads.clear();
}

Block::~Block() { std::free(shared_); }

uint32_t Block::AddressOf(const void* shared) const {
  const auto* const byte = static_cast<const unsigned char*>(shared);
  if (byte < shared_ || byte >= shared_ + shape_.shared_bytes)
    Fail("not an address of shared memory");
  return static_cast<uint32_t>(byte - shared_);
}

void Block::MeetInWarpgroup(const std::function<void()>& action) {
  Meet(warpgroup_rendezvous_[current_ / 128], 128, this, action);
}

bool Block::RegistersFit(int of_current_group) const {
  int registers = 0;
  for (size_t group = 0; group < registers_.size(); ++group) {
    const bool is_current = group == static_cast<size_t>(current_ / 128);
    registers += 128 * (is_current ? of_current_group : registers_[group]);
  }
  return registers <= kRegisters;
}

void Block::SetRegisters(int registers) {
  if (registers < 24 || registers > 256 || registers % 8 != 0)
    Fail("setmaxnreg: not a multiple of 8 from 24 to 256");
  MeetInWarpgroup([] {});
  while (!RegistersFit(registers)) {
    waiting_for_registers_.push_back(current_);
    Suspend();
  }
  registers_[current_ / 128] = registers;
  MakeReady(waiting_for_registers_);
}

void Block::WaitForPrevious() {
  waited_for_previous_ = true;
  if (previous_ended_) return;
  waiting_for_previous_.push_back(current_);
  Suspend();
}

void Block::LetOthersGoOn() {
  MakeReady(current_);
  Suspend();
}

void Block::Poll() {
  polling_.push_back(current_);
  Suspend();
}

void Block::PollCounter() {
  polling_counters_.push_back(current_);
  Suspend();
}

void Block::WakeCounterWaits() { MakeReady(polling_counters_); }

void Block::MeetNamed(int barrier, int threads) {
  Named& named = named_.at(barrier);
  if (barrier == 0 || threads % 32 != 0 || threads > shape_.threads)
    Fail("a named barrier is 0, or not of whole warps of the block");
  if (named.rendezvous.count == 0) named.threads = threads;
  if (named.threads != threads)
    Fail("threads disagree on how many meet at a named barrier");
  Meet(named.rendezvous, threads, &named, [] {});
}

void Block::WakeIfPhaseEnded() {
  if (!barriers_.TakeEndedPhase()) return;
  MakeReady(polling_);
}

void Block::BeginCopy(const CopyInFlight& copy) {
  if (unfenced_[current_])
    Fail("a bulk copy after a counter, without a fence of its proxy");
  barriers_.CheckCopy(copy);
  const uint32_t to = AddressOf(copy.to);
  if (to % 16 != 0) Fail("a bulk copy is not aligned to 16 bytes");
  std::memset(At(to, copy.bytes), 0xff, copy.bytes);
  copies_.push_back(copy);
  const auto hint = std::find(open_hints_.begin(), open_hints_.end(),
                              Hint{copy.from, copy.bytes});
  if (hint != open_hints_.end()) open_hints_.erase(hint);
}

void Block::NoteHint(const Hint& hint) {
  if (reinterpret_cast<uintptr_t>(hint.from) % 16 != 0 || hint.bytes % 16 != 0)
    Fail("a hint is not of whole pieces of 16 bytes");
  open_hints_.push_back(hint);
  ++hints_;
}

// Lands a random one of the copies under way; false: there is none.
bool Block::LandCopy() {
  if (copies_.empty()) return false;
  std::swap(copies_[dice_.Draw(copies_.size())], copies_.back());
  const CopyInFlight copy = copies_.back();
  copies_.pop_back();
  std::memcpy(copy.to, copy.from, copy.bytes);
  barriers_.Land(copy);
  WakeIfPhaseEnded();
  return true;
}

void Block::RunReady() {
  if (steps_per_copy_ != 0 && dice_.Draw(steps_per_copy_) == 0) LandCopy();
  current_ = ready_.Take();
  current_block_ = this;
  threads_[current_]->Resume();
  if (threads_[current_]->ended()) --alive_;
  WakeIfPhaseEnded();
}

void Block::RunAhead() {
  const bool copies_are_fast = dice_.Draw(2) == 0;
  while (!ready_.empty() || (copies_are_fast && !copies_.empty())) {
    current_block_ = this;
    if (ready_.empty()) {
      LandCopy();
    } else {
      RunReady();
    }
  }
}

void Block::EndPrevious() {
  previous_ended_ = true;
  MakeReady(waiting_for_previous_);
}

bool Block::Step() {
  current_block_ = this;
  if (ready_.empty()) return LandCopy();
  RunReady();
  return true;
}

void Block::CheckEnd() {
  current_block_ = this;
  if (!copies_.empty()) Fail("the block ended while copies were under way");
  if (!open_hints_.empty())
    Fail("a hint at what no bulk copy of the block brings after it");
  if (!waited_for_previous_)
    Fail("the block never waited for the kernel before");
  current_block_ = nullptr;
}

std::string Block::Describe() const {
  std::string text = "block " + std::to_string(shape_.index.x) + ": of " +
                     std::to_string(alive_) + " threads ";
  const auto add = [&](size_t count, const std::string& what) {
    if (count > 0) text += std::to_string(count) + " " + what + ", ";
  };
  add(polling_.size(), "wait for a barrier");
  add(polling_counters_.size(), "wait for a counter");
  add(waiting_for_previous_.size(), "wait for the kernel before");
  add(waiting_for_registers_.size(), "wait for registers");
  add(all_threads_.count, "are at __syncthreads");
  for (size_t i = 0; i < named_.size(); ++i) {
    add(named_[i].rendezvous.count,
        "are at named barrier " + std::to_string(i));
  }
  for (const Warp& warp : warps_) {
    add(std::popcount(warp.waiting), "wait for their warp");
  }
  for (const Rendezvous& group : warpgroup_rendezvous_) {
    add(group.count, "wait for their warpgroup");
  }
  return text + std::to_string(copies_.size()) + " copies under way";
}

}  // namespace espalier::cuda::emulation
