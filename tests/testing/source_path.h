#ifndef ESPALIER_TESTS_TESTING_SOURCE_PATH_H_
#define ESPALIER_TESTS_TESTING_SOURCE_PATH_H_

#include <string>

namespace espalier {

// Returns the path of a file or folder of the repository, which lies where this
// program was built.
std::string SourcePath(const std::string& path);
// Returns the bytes of a file of the repository, which is there.
std::string SourceFile(const std::string& path);

}  // namespace espalier

#endif  // ESPALIER_TESTS_TESTING_SOURCE_PATH_H_
