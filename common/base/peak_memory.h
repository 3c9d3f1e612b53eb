#ifndef ESPALIER_COMMON_BASE_PEAK_MEMORY_H_
#define ESPALIER_COMMON_BASE_PEAK_MEMORY_H_

#include <cstdint>

namespace espalier {

// Returns the peak resident memory of this process so far, in bytes: its own
// pages and those of mapped files. 0 if /proc does not say.
int64_t PeakResidentBytes();

}  // namespace espalier

#endif  // ESPALIER_COMMON_BASE_PEAK_MEMORY_H_
