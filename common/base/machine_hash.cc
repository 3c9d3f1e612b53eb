#include "common/base/machine_hash.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <system_error>

namespace espalier {
namespace {

// FNV-1a.
uint64_t Hash(const std::string& bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char byte : bytes) hash = (hash ^ byte) * 0x100000001b3;
  return hash;
}

}  // namespace

uint64_t MachineHash(const std::string& what) {
  std::string machine;  // and boot
  std::ifstream("/proc/sys/kernel/random/boot_id") >> machine;
  const uint64_t hash = Hash(machine + ',' + what);
  return hash != 0 ? hash : 1;
}

uint64_t SharedMemoryHash(const std::string& what) {
  std::error_code unknown;
  const auto space =
      std::filesystem::read_symlink("/proc/self/ns/pid", unknown);
  return MachineHash(what + ',' + std::to_string(geteuid()) + ',' +
                     space.string());
}

}  // namespace espalier
