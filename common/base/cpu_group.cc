#include "common/base/cpu_group.h"

#include <sched.h>

#include <fstream>
#include <string>

namespace espalier {
namespace {

// FNV-1a.
uint64_t Hash(const std::string& bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char byte : bytes) hash = (hash ^ byte) * 0x100000001b3;
  return hash;
}

}  // namespace

uint64_t CpuGroup() {
  std::string machine;  // identifies machine and boot
  std::ifstream("/proc/sys/kernel/random/boot_id") >> machine;
  cpu_set_t cores;
  CPU_ZERO(&cores);
  sched_getaffinity(0, sizeof(cores), &cores);
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &cores)) machine += ',' + std::to_string(core);
  }
  const uint64_t hash = Hash(machine);
  return hash != 0 ? hash : 1;
}

}  // namespace espalier
