#ifndef ESPALIER_TESTS_FUZZ_MEMORY_FILE_H_
#define ESPALIER_TESTS_FUZZ_MEMORY_FILE_H_

#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace espalier::testing {

// A file without a disk, for parsers that map a file.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes)
      : descriptor_(memfd_create("fuzz", MFD_CLOEXEC)) {
    ESPALIER_CHECK(write(descriptor_, bytes.data(), bytes.size()) ==
                   static_cast<ssize_t>(bytes.size()));
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { close(descriptor_); }

  std::string path() const {
    return absl::StrCat("/proc/self/fd/", descriptor_);
  }

 private:
  const int descriptor_;
};

}  // namespace espalier::testing

#endif  // ESPALIER_TESTS_FUZZ_MEMORY_FILE_H_
