#ifndef ESPALIER_COMMON_BASE_SECRET_NUMBER_H_
#define ESPALIER_COMMON_BASE_SECRET_NUMBER_H_

#include <cstdint>

namespace espalier {

// Returns a number that cannot be predicted, even from earlier ones.
// Thread-safe.
uint64_t SecretNumber();

}  // namespace espalier

#endif  // ESPALIER_COMMON_BASE_SECRET_NUMBER_H_
