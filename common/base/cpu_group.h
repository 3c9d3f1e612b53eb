#ifndef ESPALIER_COMMON_BASE_CPU_GROUP_H_
#define ESPALIER_COMMON_BASE_CPU_GROUP_H_

#include <cstdint>

namespace espalier {

// Returns a number, not 0, that is equal in processes of one machine that may
// use the same set of cores. Sets that merely overlap have different numbers.
uint64_t CpuGroup();

}  // namespace espalier

#endif  // ESPALIER_COMMON_BASE_CPU_GROUP_H_
