#ifndef ESPALIER_COMMON_MODEL_FILES_GGUF_CURSOR_H_
#define ESPALIER_COMMON_MODEL_FILES_GGUF_CURSOR_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace espalier {

// Numbers in the file: little-endian, not aligned.
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

// Returns a name of the file as an error may show it.
std::string ShownGgufName(std::string_view name);

// Returns the same error, which says that it is of the `kind` "metadata key" or
// "tensor" of this name.
absl::Status NamedGgufError(const char* kind, std::string_view name,
                            const absl::Status& status);

// Reads a GGUF file from its front. Errors are INVALID_ARGUMENT and name the
// field. The views that it returns are of the file's bytes.
class GgufCursor {
 public:
  explicit GgufCursor(absl::Span<const std::byte> file) : file_(file) {}

  uint64_t position() const { return position_; }
  uint64_t left() const { return file_.size() - position_; }

  absl::StatusOr<absl::Span<const std::byte>> Bytes(uint64_t count,
                                                    const char* field) {
    if (count > left()) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, " of ", count, " bytes does not fit the ", left(),
                       " bytes left in the file"));
    }
    const auto bytes = file_.subspan(position_, count);
    position_ += count;
    return bytes;
  }

  template <typename T>
  absl::StatusOr<T> Number(const char* field) {
    ASSIGN_OR_RETURN(const auto bytes, Bytes(sizeof(T), field));
    return GgufNumbers<T>(bytes)[0];
  }

  absl::StatusOr<std::string_view> String(const char* field) {
    ASSIGN_OR_RETURN(const uint64_t size, Number<uint64_t>(field));
    ASSIGN_OR_RETURN(const auto bytes, Bytes(size, field));
    return std::string_view(reinterpret_cast<const char*>(bytes.data()),
                            bytes.size());
  }

  // Reads a string of 1 to `max` bytes.
  absl::StatusOr<std::string_view> Name(uint64_t max, const char* field) {
    ASSIGN_OR_RETURN(const std::string_view name, String(field));
    if (name.empty() || name.size() > max) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, " has ", name.size(), " bytes, not 1 to ", max));
    }
    return name;
  }

  // Refuses `count` things of at least `bytes_each` that the file cannot hold.
  absl::Status CheckCount(uint64_t count, uint64_t bytes_each,
                          const char* field) const {
    if (count <= left() / bytes_each) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        field, " is ", count, ", but the ", left(),
        " bytes left in the file hold at most ", left() / bytes_each));
  }

 private:
  absl::Span<const std::byte> file_;
  uint64_t position_ = 0;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_FILES_GGUF_CURSOR_H_
