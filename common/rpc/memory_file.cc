#include "common/rpc/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace espalier {

absl::StatusOr<MemoryFile> MemoryFile::Make(absl::string_view content) {
  MemoryFile file(memfd_create("espalier", MFD_CLOEXEC));
  if (file.descriptor_ < 0) {
    return absl::ErrnoToStatus(errno, "cannot make a file in memory");
  }
  while (!content.empty()) {
    const ssize_t size =
        write(file.descriptor_, content.data(), content.size());
    if (size < 0) {
      return absl::ErrnoToStatus(errno, "cannot write a file in memory");
    }
    content.remove_prefix(static_cast<size_t>(size));
  }
  return file;
}

MemoryFile::~MemoryFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

std::string MemoryFile::path() const {
  return absl::StrCat("/proc/self/fd/", descriptor_);
}

absl::Status MemoryFile::Replace(absl::string_view content) {
  ASSIGN_OR_RETURN(const MemoryFile fresh, Make(content));
  if (dup3(fresh.descriptor_, descriptor_, O_CLOEXEC) >= 0) {
    return absl::OkStatus();
  }
  return absl::ErrnoToStatus(errno, "cannot replace a file in memory");
}

}  // namespace espalier
