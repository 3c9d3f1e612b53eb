#ifndef ESPALIER_COMMON_BASE_AVAILABLE_MEMORY_H_
#define ESPALIER_COMMON_BASE_AVAILABLE_MEMORY_H_

#include <cstdint>
#include <string>

namespace espalier {

// Returns the bytes that this process can allocate now without swapping: the
// kernel's MemAvailable, or less if the process's control group (v1 or v2) or
// one above it has less left. Page cache that can be dropped counts as
// available. 0: unknown. `root` is the folder that has /proc and /sys, for
// tests.
int64_t AvailableMemory(const std::string& root = "");

}  // namespace espalier

#endif  // ESPALIER_COMMON_BASE_AVAILABLE_MEMORY_H_
