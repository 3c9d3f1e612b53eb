#ifndef ESPALIER_COMMON_RPC_MEMORY_FILE_H_
#define ESPALIER_COMMON_RPC_MEMORY_FILE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace espalier {

// A file of this process that is on no disk, for libraries that read by path.
class MemoryFile {
 public:
  // Throws std::system_error if the system has no descriptor or memory for it.
  explicit MemoryFile(absl::string_view content);
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  // By which this process opens it.
  std::string path() const;
  // At once: who opens it reads either content as a whole.
  void Replace(absl::string_view content);

 private:
  const int descriptor_;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_RPC_MEMORY_FILE_H_
