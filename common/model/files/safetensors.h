#ifndef ESPALIER_COMMON_MODEL_FILES_SAFETENSORS_H_
#define ESPALIER_COMMON_MODEL_FILES_SAFETENSORS_H_

#include <map>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "common/model/files/mapped_file.h"
#include "common/model/files/tensor_view.h"

namespace espalier {

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

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_FILES_SAFETENSORS_H_
