#ifndef ESPALIER_TESTS_FUZZ_SOURCE_FILE_H_
#define ESPALIER_TESTS_FUZZ_SOURCE_FILE_H_

#include <fstream>
#include <iterator>
#include <string>

#include "common/base/check.h"
#include "tests/testing/source_path.h"

namespace espalier::testing {

// Returns the bytes of a file of the repository.
inline std::string SourceFile(const std::string& path) {
  std::ifstream file(SourcePath(path), std::ios::binary);
  ESPALIER_CHECK(file.good());
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace espalier::testing

#endif  // ESPALIER_TESTS_FUZZ_SOURCE_FILE_H_
