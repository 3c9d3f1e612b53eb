#ifndef ESPALIER_COMMON_NN_WEIGHT_SOURCE_H_
#define ESPALIER_COMMON_NN_WEIGHT_SOURCE_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "common/nn/kernels.h"
#include "common/nn/weight_block.h"

namespace espalier::nn {

// A weight as a file has it, row-major, little-endian, not aligned; or one that
// is made up, without memory, where it is read.
struct WeightSource {
  enum class Format {
    kBf16,
    kF16,
    kFloat32,
    // Blocks of GGUF files.
    kQ8_0,
    kQ4_0,
    kQ4_1,
    kQ5_0,
    kQ5_1,
    kQ4K,
    kQ5K,
    kQ6K,
    // Made up, see RandomBlock.
    kRandom,
  };
  Format format = Format::kBf16;
  const std::byte* data = nullptr;  // [outputs, inputs]
  uint64_t seed = 0;                // of kRandom, which has no data
  int64_t outputs = 0;
  bool transposed = false;  // [inputs, outputs] instead (GPT-2's Conv1D)
  // Told of bytes of `data` that will not be read again, on any thread: a
  // mapped file's pages need not all be in memory. Null: no page is dropped.
  void (*release)(absl::Span<const std::byte> bytes) = nullptr;
};

// Inputs that a format keeps together; 1 for floats. A row of a file has whole
// ones.
int64_t UnitInputs(WeightSource::Format format);
int64_t RowBytes(WeightSource::Format format, int64_t inputs);

// How the kernels hold this format without another rounding. REQUIRES: blocks.
BlockFormat BlockFormatOf(WeightSource::Format format);

// The index-th block of a row, in BlockFormatOf(format). REQUIRES: blocks.
WeightBlock ReadBlock(const WeightSource& source, int64_t row, int64_t inputs,
                      int64_t index);

// The index-th block of a row of random weights; zeros after `inputs`. They
// depend on the arguments alone, have a mean of 0 and a standard deviation
// within a factor of 1.5 of 1 / sqrt(inputs), and are small whole numbers
// times a power of two, so that every format of weights holds them exactly.
WeightBlock RandomBlock(uint64_t seed, int64_t row, int64_t inputs,
                        int64_t index);

// Returns the scale by which the codes -7 .. 7 of random blocks are multiplied.
float RandomScale(int64_t inputs);

// The index-th kBlockInputs weights of a row; zeros after `inputs`.
// REQUIRES: transposed means floats.
void ReadWeights(const WeightSource& source, int64_t row, int64_t inputs,
                 int64_t index, float* out);

}  // namespace espalier::nn

#endif  // ESPALIER_COMMON_NN_WEIGHT_SOURCE_H_
