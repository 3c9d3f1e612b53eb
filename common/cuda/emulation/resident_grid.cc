#include "common/cuda/emulation/resident_grid.h"

#include <utility>

#include "common/base/check.h"

namespace espalier::cuda::emulation {

ResidentGrid::ResidentGrid(const BlockShape& shape,
                           std::function<void()> kernel, StackPool& stacks)
    : shape_(shape),
      kernel_(std::move(kernel)),
      stacks_(stacks),
      random_(shape.seed) {
  ESPALIER_CHECK(shape.grid.count() == shape.grid.x);
}

void ResidentGrid::Begin() {
  constexpr uint64_t kMaxSteps[] = {1, 16, 128, 1024};
  for (unsigned i = 0; i < shape_.grid.x; ++i) {
    BlockShape shape = shape_;
    shape.index = {.x = i, .y = 0, .z = 0};
    shape.seed = random_();
    blocks_.push_back({std::make_unique<Block>(shape, kernel_, stacks_),
                       kMaxSteps[random_() % 4]});
  }
}

void ResidentGrid::RunAhead() {
  Begin();
  for (const Resident& resident : blocks_) {
    if (random_() % 2 == 0) resident.block->RunAhead();
  }
}

bool ResidentGrid::RunTurn(const Resident& resident) {
  const uint64_t steps = 1 + random_() % resident.most_steps;
  for (uint64_t i = 0; i < steps; ++i) {
    if (resident.block->ended() || !resident.block->Step()) return false;
  }
  return true;
}

void ResidentGrid::Finish() {
  if (blocks_.empty()) Begin();
  std::vector<size_t> able, waiting;  // of blocks_
  for (size_t i = 0; i < blocks_.size(); ++i) {
    blocks_[i].block->EndPrevious();
    able.push_back(i);
  }
  while (!able.empty()) {
    std::swap(able[random_() % able.size()], able.back());
    Block& block = *blocks_[able.back()].block;
    if (!RunTurn(blocks_[able.back()])) {
      if (!block.ended()) waiting.push_back(able.back());
      able.pop_back();
    }
    if (block.TakeCounted()) {
      for (const Resident& each : blocks_) each.block->WakeCounterWaits();
      able.insert(able.end(), waiting.begin(), waiting.end());
      waiting.clear();
    }
  }
  if (!waiting.empty()) Block::Fail("deadlock of blocks" + Describe());
  for (const Resident& each : blocks_) {
    each.block->CheckEnd();
    hints_ += each.block->hints();
  }
  blocks_.clear();
}

std::string ResidentGrid::Describe() const {
  std::string text;
  for (const Resident& each : blocks_) text += "\n" + each.block->Describe();
  return text;
}

}  // namespace espalier::cuda::emulation
