// Internal to common/model: includes ATen.
#ifndef ESPALIER_COMMON_MODEL_ATEN_WEIGHT_LOADER_H_
#define ESPALIER_COMMON_MODEL_ATEN_WEIGHT_LOADER_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/model/aten/linear.h"
#include "common/model/files/model_config.h"
#include "common/model/files/weight_files.h"

namespace espalier {

// Copies tensors from the mapped files and counts their bytes.
class WeightLoader {
 public:
  // One tensor of a Linear: [out, in], or [in, out] if `transposed`.
  struct Part {
    std::string name;  // without ".weight" and ".bias"
    int64_t out = 0;
  };

  // `files` must outlive this object.
  WeightLoader(const WeightFiles& files, at::ScalarType compute_dtype)
      : files_(files), compute_dtype_(compute_dtype) {}

  bool Has(const std::string& name) const { return files_.Has(name); }

  // Loads a norm's weight or bias: [size] float32.
  absl::StatusOr<at::Tensor> Vector(const std::string& name, int64_t size);

  // Loads a table to look rows up in: [rows, columns] in the dtype of the file,
  // float32 if it has blocks.
  absl::StatusOr<at::Tensor> Table(const std::string& name, int64_t rows,
                                   int64_t columns);

  struct LinearShape {
    int64_t in = 0;
    bool has_bias = false;
    bool transposed = false;  // GPT-2's Conv1D
    bool exact = false;       // float32 in every compute type
  };
  // Loads one product for all parts: their outputs come one after another.
  absl::StatusOr<Linear> LoadLinear(const std::vector<Part>& parts,
                                    const LinearShape& shape);

  // Loads the output projection, of its own or tied to `embedding` [vocab,
  // hidden].
  absl::StatusOr<Linear> LoadHead(const ModelConfig& config,
                                  const at::Tensor& embedding);

  int64_t weight_bytes() const { return weight_bytes_; }

 private:
  // Reads a tensor of exactly this shape, in the dtype of the file, or in
  // float32 if the file has blocks.
  absl::StatusOr<at::Tensor> Read(const std::string& name,
                                  const std::vector<int64_t>& shape) const;
  at::Tensor Place(const at::Tensor& tensor, at::ScalarType dtype);

  const WeightFiles& files_;
  const at::ScalarType compute_dtype_;
  int64_t weight_bytes_ = 0;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_ATEN_WEIGHT_LOADER_H_
