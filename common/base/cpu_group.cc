#include "common/base/cpu_group.h"

#include <sched.h>

#include <string>

#include "common/base/machine_hash.h"

namespace espalier {

uint64_t CpuGroup() {
  std::string usable;
  cpu_set_t cores;
  CPU_ZERO(&cores);
  sched_getaffinity(0, sizeof(cores), &cores);
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &cores)) usable += ',' + std::to_string(core);
  }
  return MachineHash(usable);
}

}  // namespace espalier
