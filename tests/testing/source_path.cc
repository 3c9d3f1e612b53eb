#include "tests/testing/source_path.h"

#include <fstream>
#include <iterator>

#include "common/base/check.h"

namespace espalier {

std::string SourcePath(const std::string& path) {
  return ESPALIER_SOURCE_DIR "/" + path;
}

std::string SourceFile(const std::string& path) {
  std::ifstream file(SourcePath(path), std::ios::binary);
  ESPALIER_CHECK(file.good());
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace espalier
