#ifndef ESPALIER_COMMON_MODEL_NATIVE_NATIVE_WEIGHT_LOADER_H_
#define ESPALIER_COMMON_MODEL_NATIVE_NATIVE_WEIGHT_LOADER_H_

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/model/native/native_weights.h"
#include "common/nn/weight_source.h"
#include "common/speculation/types.h"

namespace espalier {

// Packs tensors from the mapped files into an arena and counts their bytes.
class NativeWeightLoader {
 public:
  struct Target {
    ComputeDType dtype = ComputeDType::kFloat32;  // see LoadNativeWeights
    nn::HugePageArena& arena;
    nn::ThreadPool& pool;
  };

  // One tensor of a product.
  struct Part {
    std::string name;  // without ".weight" and ".bias"
    int64_t outputs = 0;
  };

  // `files` must outlive this object.
  NativeWeightLoader(const WeightFiles& files, const Target& target)
      : files_(files), target_(target) {}

  bool Has(const std::string& name) const { return files_.Has(name); }

  // [size] float32.
  absl::StatusOr<std::vector<float>> Vector(const std::string& name,
                                            int64_t size);

  // A table to look rows up in.
  struct TableShape {
    int64_t rows = 0;
    int64_t columns = 0;
  };
  absl::StatusOr<nn::PackedMatrix> Table(const std::string& name,
                                         const TableShape& shape);

  struct LinearShape {
    int64_t inputs = 0;
    bool has_bias = false;
    bool transposed = false;  // GPT-2's Conv1D
    bool gated = false;       // parts: gates and what they multiply
    bool vocabulary = false;  // a row for each token
    bool exact = false;       // float32 in every compute type
  };
  absl::StatusOr<NativeLinear> Linear(const std::vector<Part>& parts,
                                      const LinearShape& shape);

  // Loads the given rows of a table, packed as a product of their own.
  absl::StatusOr<NativeLinear> Rows(const std::string& name,
                                    absl::Span<const TokenId> rows,
                                    const TableShape& shape);

  // INVALID_ARGUMENT names a tensor of the files that was not read.
  absl::Status CheckAllRead() const;
  // Marks an unused tensor as read.
  void Ignore(const std::string& name) { read_.insert(name); }

  int64_t bytes() const { return bytes_; }

 private:
  // A weight of the files; a copy where the file has its rows in another order.
  struct Source {
    nn::WeightSource weights;
    std::vector<std::byte> copy = {};
  };
  // `part`: with its whole name.
  absl::StatusOr<Source> Open(const Part& part, const LinearShape& shape);

  nn::PackedMatrix Pack(const std::vector<nn::WeightSource>& parts,
                        const LinearShape& shape);

  absl::StatusOr<TensorView> Find(const std::string& name,
                                  const std::vector<int64_t>& shape);

  const WeightFiles& files_;
  const Target target_;
  std::set<std::string> read_;
  int64_t bytes_ = 0;
};

// Loads layer `index` of a decoder of kind kLlama, or of a draft head that has
// such layers. `prefix` of its tensors' names, such as "model.layers.0.".
absl::StatusOr<NativeLayer> LoadLlamaLayer(const ModelConfig& config,
                                           int64_t index,
                                           const std::string& prefix,
                                           NativeWeightLoader& loader);
// Loads a layer without the input norm, for heads that compute the input of
// attention (`inputs` numbers) in their own way.
absl::StatusOr<NativeLayer> LoadLlamaLayerBehindNorm(
    const ModelConfig& config, int64_t index, const std::string& prefix,
    int64_t inputs, NativeWeightLoader& loader);

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_NATIVE_NATIVE_WEIGHT_LOADER_H_
