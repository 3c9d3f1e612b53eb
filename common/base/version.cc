#include "common/base/version.h"

namespace espalier {

const char* Version() { return ESPALIER_VERSION; }

}  // namespace espalier
