#include "coordinator/vllm/stored_zip.h"

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace espalier::coordinator {
namespace {

// An independent reader finds the files, with their checksums.
TEST(StoredZipTest, OthersReadIt) {
  const std::vector<TextFile> files = {
      {"a.json", "{\"a\": 1}"},
      {"empty", ""},
      {"large.txt", std::string(100000, 'x') + "\xc3\xa9"}};
  const std::string path = ::testing::TempDir() + "/archive.zip";
  std::ofstream(path, std::ios::binary) << StoredZip(files);
  const std::string script = absl::StrCat(
      "import zipfile; z = zipfile.ZipFile('", path,
      "'); assert z.testzip() is None; "
      "assert z.namelist() == ['a.json', 'empty', 'large.txt'], z.namelist(); "
      "assert z.read('a.json') == b'{\"a\": 1}'; assert z.read('empty') == "
      "b''; "
      "assert z.read('large.txt') == b'x' * 100000 + b'\\xc3\\xa9'");
  std::ofstream(path + ".py") << script;
  EXPECT_EQ(std::system(absl::StrCat("python3 ", path, ".py").c_str()), 0);
}

}  // namespace
}  // namespace espalier::coordinator
