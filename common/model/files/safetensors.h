#ifndef ESPALIER_COMMON_MODEL_FILES_SAFETENSORS_H_
#define ESPALIER_COMMON_MODEL_FILES_SAFETENSORS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/model/files/mapped_file.h"

namespace espalier {

enum class DType { kF64, kF32, kF16, kBF16, kI64, kI32, kI16, kI8, kU8, kBool };

int64_t ElementBytes(DType dtype);
const char* DTypeName(DType dtype);  // as in the file: "BF16"

// One tensor in a mapped file: row-major, little-endian, not aligned.
struct TensorView {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  absl::Span<const std::byte> data;  // product(shape) * ElementBytes(dtype)
};

// One .safetensors file: 8 bytes header length, JSON header, tensor data.
// Everything is checked at Open (lengths, types, shapes, offsets without gap
// or overlap, names without repetition), so a view that Find returns is sound.
// Constant after Open; the views live as long as this object.
class SafetensorsFile {
 public:
  // NOT_FOUND: no such file. INVALID_ARGUMENT names the file and the tensor.
  static absl::StatusOr<SafetensorsFile> Open(const std::string& path);

  const std::map<std::string, TensorView>& tensors() const { return tensors_; }

 private:
  SafetensorsFile(MappedFile file, std::map<std::string, TensorView> tensors)
      : file_(std::move(file)), tensors_(std::move(tensors)) {}

  MappedFile file_;
  std::map<std::string, TensorView> tensors_;
};

// The weights of a model folder: model.safetensors, or the shards that
// model.safetensors.index.json lists. Constant after Open.
class WeightFiles {
 public:
  // NOT_FOUND: neither file is there, or a listed shard or tensor is missing.
  static absl::StatusOr<WeightFiles> Open(const std::string& folder);

  bool Has(const std::string& name) const { return tensors_.contains(name); }
  const std::map<std::string, TensorView>& tensors() const { return tensors_; }

  // NOT_FOUND names the folder and the tensor.
  absl::StatusOr<TensorView> Find(const std::string& name) const;

  // As above, of exactly this shape. INVALID_ARGUMENT: it has another.
  absl::StatusOr<TensorView> Find(const std::string& name,
                                  const std::vector<int64_t>& shape) const;

 private:
  explicit WeightFiles(std::string folder) : folder_(std::move(folder)) {}

  absl::Status Add(SafetensorsFile file);

  std::string folder_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, TensorView> tensors_;  // views into files_
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_FILES_SAFETENSORS_H_
