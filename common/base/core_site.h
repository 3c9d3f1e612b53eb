#ifndef ESPALIER_COMMON_BASE_CORE_SITE_H_
#define ESPALIER_COMMON_BASE_CORE_SITE_H_

#include <cstdint>

namespace espalier {

// The same number, not 0, in all processes of a machine that may use the same
// set of cores. Sets that merely overlap differ.
uint64_t CoreSite();

}  // namespace espalier

#endif  // ESPALIER_COMMON_BASE_CORE_SITE_H_
