#ifndef ESPALIER_COMMON_BASE_PEAK_MEMORY_H_
#define ESPALIER_COMMON_BASE_PEAK_MEMORY_H_

#include <cstdint>

namespace espalier {

// The most memory that this process has had resident so far, in bytes: its own
// and the pages of files that it has mapped. 0 where /proc does not tell.
int64_t PeakResidentBytes();

}  // namespace espalier

#endif  // ESPALIER_COMMON_BASE_PEAK_MEMORY_H_
