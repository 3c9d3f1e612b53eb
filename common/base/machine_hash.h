#ifndef ESPALIER_COMMON_BASE_MACHINE_HASH_H_
#define ESPALIER_COMMON_BASE_MACHINE_HASH_H_

#include <cstdint>
#include <string>

namespace espalier {

// Of this machine since its boot, and `what`; not 0.
uint64_t MachineHash(const std::string& what);

// The same only of processes that can open each other's memory: those of other
// users, and of containers that do not see each other's processes, have another
// hash.
uint64_t SharedMemoryHash(const std::string& what);

}  // namespace espalier

#endif  // ESPALIER_COMMON_BASE_MACHINE_HASH_H_
