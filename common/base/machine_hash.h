#ifndef ESPALIER_COMMON_BASE_MACHINE_HASH_H_
#define ESPALIER_COMMON_BASE_MACHINE_HASH_H_

#include <cstdint>
#include <string>

namespace espalier {

// Returns a hash of this machine, its boot, and `what`; not 0.
uint64_t MachineHash(const std::string& what);

// Returns the same with the user and the PID namespace in it: processes with
// other ones cannot open each other's memory.
uint64_t SharedMemoryHash(const std::string& what);

}  // namespace espalier

#endif  // ESPALIER_COMMON_BASE_MACHINE_HASH_H_
