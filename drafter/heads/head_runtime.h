#ifndef ESPALIER_DRAFTER_HEADS_HEAD_RUNTIME_H_
#define ESPALIER_DRAFTER_HEADS_HEAD_RUNTIME_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/cuda/compute_device.h"
#include "common/model/compute_dtype.h"
#include "common/model/native/native_layers.h"
#include "common/model/native/paged_kv_cache.h"
#include "common/nn/kernels.h"
#include "common/nn/thread_pool.h"
#include "drafter/engine/option_reader.h"

namespace espalier::drafter {

// The kernels, dtype and threads of a draft head, or the GPU that it runs on.
struct HeadRuntime {
  std::string device = "cpu";
  const nn::Kernels* kernels = nullptr;
  ComputeDType dtype = ComputeDType::kFloat32;
  std::unique_ptr<nn::ThreadPool> pool;
  int64_t prefix_cache_bytes = 0;
  std::optional<uint64_t> random_weights = {};

  NativeLayers::Runtime layers() const;
  // Returns the room for so many positions.
  KvPageStore::Room Room(const KvPageShape& shape, int64_t total_tokens) const;

  bool is_cpu() const { return device == "cpu"; }
  // FAILED_PRECONDITION names the drafter's type and the device, which is not
  // here.
  absl::StatusOr<std::shared_ptr<cuda::ComputeDevice>> OpenDevice(
      absl::string_view drafter) const;
};

// Reads the options of every network: device (cpu (default), cuda,
// cuda:<number> or emulated: where it runs), threads (default 2: one core
// reaches half of the memory bandwidth; more would take cores from the
// machine's other drafters), compute_type (float32, bfloat16, int8 or int4,
// default cpu_type; on a GPU fp8 (default), also of the output rows, or
// bfloat16: rounding in a drafter costs a little acceptance and cannot change
// the text), cpu_kernels (of networks on the CPU), prefix_cache_mib (K/V kept
// for texts that begin like earlier ones, default 64; 0: none is shared), and
// random_weights (for measurements: weights of this seed for the network and
// for what it takes of its target, whose folders need config.json only). After
// a mistake, which the reader keeps, the kernels are null.
HeadRuntime ReadHeadRuntime(OptionReader& reader,
                            ComputeDType cpu_type = ComputeDType::kInt4);

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_HEADS_HEAD_RUNTIME_H_
