#ifndef ESPALIER_COMMON_RPC_MEMORY_FILE_H_
#define ESPALIER_COMMON_RPC_MEMORY_FILE_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace espalier {

// A file of this process that is on no disk, for libraries that read by path.
class MemoryFile {
 public:
  // RESOURCE_EXHAUSTED etc.: the system has no descriptor or memory for it.
  static absl::StatusOr<MemoryFile> Make(absl::string_view content);
  MemoryFile(MemoryFile&& other)
      : descriptor_(std::exchange(other.descriptor_, -1)) {}
  MemoryFile& operator=(MemoryFile&&) = delete;
  ~MemoryFile();

  // By which this process opens it.
  std::string path() const;
  // At once: who opens it reads either content as a whole. Errors as of Make
  // change nothing.
  absl::Status Replace(absl::string_view content);

 private:
  explicit MemoryFile(int descriptor) : descriptor_(descriptor) {}

  int descriptor_;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_MEMORY_FILE_H_
