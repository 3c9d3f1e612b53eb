#include "common/base/secret_number.h"

#include <sys/random.h>

#include "common/base/check.h"

namespace espalier {

uint64_t SecretNumber() {
  uint64_t number = 0;
  // Once the system has started, so few bytes are never returned in part.
  ESPALIER_CHECK(getrandom(&number, sizeof(number), 0) == sizeof(number));
  return number;
}

}  // namespace espalier
