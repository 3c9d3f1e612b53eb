// Reader of GGUF files, versions 2 and 3, little-endian:
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#ifndef ESPALIER_COMMON_MODEL_FILES_GGUF_FILE_H_
#define ESPALIER_COMMON_MODEL_FILES_GGUF_FILE_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/check.h"
#include "common/model/files/mapped_file.h"

namespace espalier {

// The numbers are those of the file.
enum class GgufTensorType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kBF16 = 30,
};

const char* GgufTensorTypeName(GgufTensorType type);  // "Q4_K"
int64_t GgufBlockValues(GgufTensorType type);         // values in a block
int64_t GgufBlockBytes(GgufTensorType type);          // bytes of a block

// One tensor in a mapped file. Its rows lie one after another, each a whole
// number of blocks.
struct GgufTensor {
  GgufTensorType type = GgufTensorType::kF32;
  std::vector<int64_t> dims;         // 0 to 4; dims[0] is the length of a row
  uint64_t offset = 0;               // bytes from the start of the tensor data
  absl::Span<const std::byte> data;  // its size follows from type and dims
};

// Numbers in the metadata: little-endian, not aligned.
template <typename T>
class GgufNumbers {
 public:
  explicit GgufNumbers(absl::Span<const std::byte> bytes) : bytes_(bytes) {}

  size_t size() const { return bytes_.size() / sizeof(T); }

  T operator[](size_t i) const {
    ESPALIER_CHECK(i < size());
    T value;
    std::memcpy(&value, bytes_.data() + i * sizeof(T), sizeof(T));
    return value;
  }

 private:
  absl::Span<const std::byte> bytes_;
};

// A value of the metadata. Integers of every width are int64_t, but for those
// that only uint64_t holds; floats of both widths are double.
using GgufValue = std::variant<
    int64_t, uint64_t, double, bool, std::string_view, GgufNumbers<uint8_t>,
    GgufNumbers<int8_t>, GgufNumbers<uint16_t>, GgufNumbers<int16_t>,
    GgufNumbers<uint32_t>, GgufNumbers<int32_t>, GgufNumbers<uint64_t>,
    GgufNumbers<int64_t>, GgufNumbers<float>, GgufNumbers<double>,
    GgufNumbers<bool>, std::vector<std::string_view>>;

// One GGUF file: header, metadata, tensor directory, tensor data; or the first
// of several, "NAME-00001-of-00003.gguf", with the tensors of all of them. Open
// checks every count, length, type, size and offset, that names do not repeat,
// and that tensors do not overlap, so every view is sound. Arrays of arrays are
// refused. Constant after Open; the views live as long as this object.
class GgufFile {
 public:
  // NOT_FOUND: no such file. INVALID_ARGUMENT names file, field and limit.
  static absl::StatusOr<GgufFile> Open(const std::string& path);

  const std::string& path() const { return path_; }
  uint32_t version() const { return contents_.version; }
  uint32_t alignment() const { return contents_.alignment; }  // bytes
  const std::map<std::string_view, GgufValue>& metadata() const {
    return contents_.metadata;
  }
  const std::map<std::string_view, GgufTensor>& tensors() const {
    return contents_.tensors;
  }

  // The value of `key`: int64_t for integers up to INT64_MAX, double for
  // floats. NOT_FOUND: no such key. INVALID_ARGUMENT: it is of another type.
  template <typename T>
  absl::StatusOr<T> Get(std::string_view key) const {
    auto found = contents_.metadata.find(key);
    if (found == contents_.metadata.end()) return NoSuchKey(key);
    const T* value = std::get_if<T>(&found->second);
    if (value == nullptr) return OtherType(key);
    return *value;
  }

  // The same error, with the file's name.
  absl::Status Error(const absl::Status& error) const;

 private:
  struct Contents {
    uint32_t version = 0;
    uint32_t alignment = 32;
    std::map<std::string_view, GgufValue> metadata;
    std::map<std::string_view, GgufTensor> tensors;
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
