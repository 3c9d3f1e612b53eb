#ifndef ESPALIER_DRAFTER_HEADS_HEAD_MACHINE_H_
#define ESPALIER_DRAFTER_HEADS_HEAD_MACHINE_H_

#include <memory>

#include "common/model/compute_dtype.h"
#include "common/model/native_layers.h"
#include "common/nn/kernels.h"
#include "common/nn/thread_pool.h"
#include "drafter/option_reader.h"

namespace espalier::drafter {

// What a draft head computes with.
struct HeadMachine {
  const nn::Kernels* kernels = nullptr;
  ComputeDType dtype = ComputeDType::kFloat32;
  std::unique_ptr<nn::ThreadPool> pool;

  NativeLayers::Machine layers() const;
};

// Options of every head: threads (default 2: one core reads a head's weights at
// half of the memory's speed; more would crowd the machine's other drafters),
// compute_type (float32, bfloat16, the default, or int8 weights: a head's
// rounding costs a little acceptance, never the text), cpu_kernels.
// Null kernels after a mistake, which is in the reader.
HeadMachine ReadHeadMachine(OptionReader& reader);

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_HEADS_HEAD_MACHINE_H_
