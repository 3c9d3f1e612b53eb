#ifndef ESPALIER_COORDINATOR_LOCAL_MEMORY_READER_H_
#define ESPALIER_COORDINATOR_LOCAL_MEMORY_READER_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/model/language_model.h"

namespace espalier::local {

// Reads memory as fast as the device of a model can. No pass over as many bytes
// of weights and K/V can be faster.
class MemoryReader {
 public:
  virtual ~MemoryReader() = default;
  // Returns when all bytes have been read.
  virtual absl::Status Read() = 0;
};

// `bytes`: to read each time. On a CPU with the model's threads; on a GPU by a
// kernel, over and over from a buffer that its caches cannot hold.
absl::StatusOr<std::unique_ptr<MemoryReader>> MakeMemoryReader(
    const ModelInfo& model, int64_t bytes);

}  // namespace espalier::local

#endif  // ESPALIER_COORDINATOR_LOCAL_MEMORY_READER_H_
