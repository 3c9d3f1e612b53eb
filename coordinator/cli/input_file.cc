#include "coordinator/cli/input_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <istream>
#include <vector>

#include "absl/strings/str_cat.h"

namespace espalier::cli {
namespace {

absl::StatusOr<std::string> ReadAll(const std::string& name, std::istream& in) {
  std::string bytes;
  std::vector<char> block(size_t{1} << 16);
  while (in.read(block.data(), block.size()) || in.gcount() > 0) {
    bytes.append(block.data(), in.gcount());
    if (bytes.size() > kMaxInputBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, " is longer than ", kMaxInputBytes, " bytes"));
    }
  }
  if (in.bad()) return absl::NotFoundError(absl::StrCat("cannot read ", name));
  return bytes;
}

}  // namespace

absl::StatusOr<std::string> ReadInput(const std::string& path,
                                      std::istream& in) {
  if (path == "-") return ReadAll("standard input", in);
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return absl::NotFoundError(
        absl::StrCat("cannot open ", path, ": ", std::strerror(errno)));
  }
  return ReadAll(path, file);
}

}  // namespace espalier::cli
