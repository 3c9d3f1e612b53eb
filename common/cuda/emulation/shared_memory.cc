#include "common/cuda/emulation/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace espalier::cuda::emulation {
namespace {

// A mapping of what could shrink could become one of nothing.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

absl::Status NotOpened(absl::string_view handle, absl::string_view why) {
  return absl::FailedPreconditionError(
      absl::StrCat("memory \"", handle, "\": ", why));
}

// Two numbers, so that no handle names another kind of file.
absl::StatusOr<std::string> PathOf(absl::string_view handle) {
  const size_t slash = handle.find('/');
  uint32_t process = 0, descriptor = 0;
  if (slash == absl::string_view::npos ||
      !absl::SimpleAtoi(handle.substr(0, slash), &process) ||
      !absl::SimpleAtoi(handle.substr(slash + 1), &descriptor)) {
    return absl::FailedPreconditionError(
        "a handle of memory is not a process and a descriptor");
  }
  return absl::StrCat("/proc/", process, "/fd/", descriptor);
}

}  // namespace

absl::StatusOr<SharedMemory> SharedMemory::Make(int64_t bytes) {
  SharedMemory memory;
  memory.bytes_ = bytes;
  memory.descriptor_ =
      memfd_create("espalier-device", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  void* mapped = MAP_FAILED;
  if (memory.descriptor_ >= 0 && ftruncate(memory.descriptor_, bytes) == 0 &&
      fcntl(memory.descriptor_, F_ADD_SEALS, kSeals) == 0) {
    mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                  memory.descriptor_, 0);
  }
  if (mapped == MAP_FAILED) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "no room for ", bytes, " shared bytes: ", std::strerror(errno)));
  }
  memory.data_ = static_cast<std::byte*>(mapped);
  return memory;
}

absl::StatusOr<SharedMemory> SharedMemory::Open(absl::string_view handle,
                                                int64_t bytes) {
  const absl::StatusOr<std::string> path = PathOf(handle);
  if (!path.ok()) return path.status();
  SharedMemory memory;
  memory.bytes_ = bytes;
  // Not to wait if the number has come to be a pipe.
  memory.descriptor_ = open(path->c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (memory.descriptor_ < 0) return NotOpened(handle, std::strerror(errno));
  struct stat file = {};
  if (fstat(memory.descriptor_, &file) != 0 || file.st_size < bytes ||
      fcntl(memory.descriptor_, F_GET_SEALS) != kSeals) {
    return NotOpened(handle, "it is none, or smaller");
  }
  void* const mapped =
      mmap(nullptr, bytes, PROT_READ, MAP_SHARED, memory.descriptor_, 0);
  if (mapped == MAP_FAILED) return NotOpened(handle, std::strerror(errno));
  memory.data_ = static_cast<std::byte*>(mapped);
  return memory;
}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) munmap(data_, bytes_);
  if (descriptor_ >= 0) close(descriptor_);
}

std::string SharedMemory::handle() const {
  return absl::StrCat(getpid(), "/", descriptor_);
}

}  // namespace espalier::cuda::emulation
