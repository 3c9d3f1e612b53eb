#include "tests/testing/source_path.h"

namespace espalier {

std::string SourcePath(const std::string& path) {
  return ESPALIER_SOURCE_DIR "/" + path;
}

}  // namespace espalier
