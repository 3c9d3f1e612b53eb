#ifndef ESPALIER_COMMON_CUDA_EMULATION_RESIDENT_GRID_H_
#define ESPALIER_COMMON_CUDA_EMULATION_RESIDENT_GRID_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/cuda/emulation/block.h"

namespace espalier::cuda::emulation {

// A kernel all of whose blocks are on the device at once, so that they may wait
// for each other's counters. Blocks take turns of some steps, drawn from the
// seed, and some of them are much slower than others. If all of them wait, the
// process ends and says what each waits for. One OS thread.
class ResidentGrid {
 public:
  // `shape`: of all blocks; its index is not used. REQUIRES: a row of blocks.
  ResidentGrid(const BlockShape& shape, std::function<void()> kernel,
               StackPool& stacks);

  // As of Grid: some blocks begin.
  void RunAhead();
  // The kernel before has ended: all blocks run to their ends.
  void Finish();
  // Returns how many hints the blocks gave.
  int hints() const { return hints_; }

 private:
  struct Resident {
    std::unique_ptr<Block> block;
    uint64_t most_steps = 1;  // of a turn
  };

  void Begin();
  // A turn of a block. False: it has ended, or waits for other blocks.
  bool RunTurn(const Resident& resident);
  std::string Describe() const;

  const BlockShape shape_;
  const std::function<void()> kernel_;
  StackPool& stacks_;
  std::minstd_rand random_;
  std::vector<Resident> blocks_;  // empty: not begun
  int hints_ = 0;
};

}  // namespace espalier::cuda::emulation

#endif  // ESPALIER_COMMON_CUDA_EMULATION_RESIDENT_GRID_H_
