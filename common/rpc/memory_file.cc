#include "common/rpc/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace espalier {
namespace {

[[noreturn]] void Throw() {
  throw std::system_error(errno, std::generic_category(), "a file in memory");
}

int Make(absl::string_view content) {
  const int descriptor = memfd_create("espalier", MFD_CLOEXEC);
  if (descriptor < 0) Throw();
  while (!content.empty()) {
    const ssize_t size = write(descriptor, content.data(), content.size());
    if (size < 0) {
      close(descriptor);
      Throw();
    }
    content.remove_prefix(static_cast<size_t>(size));
  }
  return descriptor;
}

}  // namespace

MemoryFile::MemoryFile(absl::string_view content)
    : descriptor_(Make(content)) {}

MemoryFile::~MemoryFile() { close(descriptor_); }

std::string MemoryFile::path() const {
  return absl::StrCat("/proc/self/fd/", descriptor_);
}

void MemoryFile::Replace(absl::string_view content) {
  const int fresh = Make(content);
  dup3(fresh, descriptor_, O_CLOEXEC);
  close(fresh);
}

}  // namespace espalier
