#ifndef ESPALIER_COMMON_MODEL_FILES_MAPPED_FILE_H_
#define ESPALIER_COMMON_MODEL_FILES_MAPPED_FILE_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace espalier {

// A regular file mapped for reading. Movable; the bytes stay where they are
// until the last owner dies. A file that shrinks while it is mapped faults the
// reader (SIGBUS), so model files are copied out at load and unmapped.
class MappedFile {
 public:
  // NOT_FOUND: no such file. INVALID_ARGUMENT: not a regular file.
  static absl::StatusOr<MappedFile> Open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  absl::Span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit MappedFile(absl::Span<const std::byte> bytes) : bytes_(bytes) {}

  absl::Span<const std::byte> bytes_;
};

// Drops the whole pages within `bytes` of a MappedFile from this process's
// memory, after they have been copied. They can still be read again.
void DropPages(absl::Span<const std::byte> bytes);

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_FILES_MAPPED_FILE_H_
