// main() of every test program. Tests run at the same time, as processes, and
// name their files after themselves or their fixture. So each process has its
// own folder as testing::TempDir() and deletes it at the end.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "common/base/check.h"

int main(int argc, char** argv) {
  std::string folder = testing::TempDir() + "espalier_test_XXXXXX";
  ESPALIER_CHECK(mkdtemp(folder.data()) != nullptr);
  setenv("TEST_TMPDIR", folder.c_str(), /*overwrite=*/1);
  testing::InitGoogleMock(&argc, argv);
  const int result = RUN_ALL_TESTS();
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return result;
}
