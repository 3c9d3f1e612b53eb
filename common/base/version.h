#ifndef ESPALIER_COMMON_BASE_VERSION_H_
#define ESPALIER_COMMON_BASE_VERSION_H_

namespace espalier {

// Returns the version of this build, e.g. "0.1.0", as set in CMakeLists.txt.
const char* Version();

}  // namespace espalier

#endif  // ESPALIER_COMMON_BASE_VERSION_H_
