// Reader of GGUF files, versions 2 and 3, little-endian:
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#ifndef ESPALIER_COMMON_MODEL_FILES_GGUF_FILE_H_
#define ESPALIER_COMMON_MODEL_FILES_GGUF_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/model/files/gguf_metadata.h"
#include "common/model/files/gguf_tensor.h"
#include "common/model/files/mapped_file.h"

namespace espalier {

// One GGUF file: header, metadata, tensor directory, tensor data; or the first
// of several, "NAME-00001-of-00003.gguf", with the tensors of all of them. Open
// checks all that it reads, so every view is sound. Constant after Open; the
// views live as long as this object.
class GgufFile {
 public:
  // NOT_FOUND: no such file. INVALID_ARGUMENT names file, field and limit.
  static absl::StatusOr<GgufFile> Open(const std::string& path);

  const std::string& path() const { return path_; }
  uint32_t version() const { return contents_.version; }
  uint32_t alignment() const { return contents_.alignment; }  // bytes
  const GgufMetadata& metadata() const { return contents_.metadata; }
  const GgufTensors& tensors() const { return contents_.tensors; }

  // Returns the value of `key`: int64_t for integers up to INT64_MAX, double
  // for floats. NOT_FOUND: no such key. INVALID_ARGUMENT: it is of another
  // type.
  template <typename T>
  absl::StatusOr<T> Get(std::string_view key) const {
    auto found = contents_.metadata.find(key);
    if (found == contents_.metadata.end()) return NoSuchKey(key);
    const T* value = std::get_if<T>(&found->second);
    if (value == nullptr) return OtherType(key);
    return *value;
  }

  // Returns the same error, with the file's name.
  absl::Status Error(const absl::Status& error) const;

 private:
  struct Contents {
    uint32_t version = 0;
    uint32_t alignment = 0;
    GgufMetadata metadata;
    GgufTensors tensors;
  };

  explicit GgufFile(std::string path) : path_(std::move(path)) {}

  static absl::StatusOr<Contents> Read(absl::Span<const std::byte> file);
  absl::StatusOr<Contents> Map(const std::string& path);
  absl::Status AddParts();

  absl::Status NoSuchKey(std::string_view key) const;
  absl::Status OtherType(std::string_view key) const;

  std::string path_;
  std::vector<MappedFile> files_;
  Contents contents_;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_FILES_GGUF_FILE_H_
