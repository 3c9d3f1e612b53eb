#ifndef ESPALIER_DRAFTER_HEADS_HEAD_RUNTIME_H_
#define ESPALIER_DRAFTER_HEADS_HEAD_RUNTIME_H_

#include <memory>

#include "common/model/compute_dtype.h"
#include "common/model/native/native_layers.h"
#include "common/nn/kernels.h"
#include "common/nn/thread_pool.h"
#include "drafter/option_reader.h"

namespace espalier::drafter {

// The kernels, dtype and threads of a draft head.
struct HeadRuntime {
  const nn::Kernels* kernels = nullptr;
  ComputeDType dtype = ComputeDType::kFloat32;
  std::unique_ptr<nn::ThreadPool> pool;

  NativeLayers::Runtime layers() const;
};

// Options of every head: threads (default 2: one core reaches half of the
// memory bandwidth; more would take cores from the machine's other drafters),
// compute_type (float32, bfloat16, int8 (default) or int4: rounding in a head
// costs a little acceptance and cannot change the text), cpu_kernels.
// After a mistake, which the reader keeps, the kernels are null.
HeadRuntime ReadHeadRuntime(OptionReader& reader);

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_HEADS_HEAD_RUNTIME_H_
