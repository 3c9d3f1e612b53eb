// main() of every test program. Tests run at the same time, as processes, and
// name their files after themselves or their fixture. So each process has its
// own folder as testing::TempDir() and deletes it at the end.
//
// A case with "Nightly" in its name takes long and covers more of what others
// cover. It runs where $ESPALIER_NIGHTLY is set, without the others, and where
// the filter says "Nightly".

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace {

// Returns the filter of a run with nightly cases left out, or these alone.
std::string FilterOfCases(const std::string& filter) {
  if (absl::StrContains(filter, "Nightly")) return filter;
  if (std::getenv("ESPALIER_NIGHTLY") != nullptr) return "*Nightly*";
  return absl::StrCat(filter, absl::StrContains(filter, '-') ? ":" : "-",
                      "*Nightly*");
}

}  // namespace

int main(int argc, char** argv) {
  std::string folder = testing::TempDir() + "espalier_test_XXXXXX";
  ESPALIER_CHECK(mkdtemp(folder.data()) != nullptr);
  setenv("TEST_TMPDIR", folder.c_str(), /*overwrite=*/1);
  testing::InitGoogleMock(&argc, argv);
  GTEST_FLAG_SET(filter, FilterOfCases(GTEST_FLAG_GET(filter)));
  const int result = RUN_ALL_TESTS();
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return result;
}
