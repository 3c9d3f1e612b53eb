// ESPALIER_FUZZ_TARGET=NAME fuzz [flags of libFuzzer] FOLDER: libFuzzer over a
// target. The seeds are written to FOLDER first; libFuzzer adds what it finds.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/fuzz/fuzz_targets.h"

namespace espalier::testing {
namespace {

const FuzzTarget& Chosen() {
  static const FuzzTarget target = [] {
    const char* name = std::getenv("ESPALIER_FUZZ_TARGET");
    return FindFuzzTarget(name == nullptr ? "" : name);
  }();
  return target;
}

}  // namespace
}  // namespace espalier::testing

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  const std::filesystem::path folder = (*argv)[*argc - 1];
  if (*argc < 2 || !std::filesystem::is_directory(folder)) return 0;
  int number = 0;
  for (const std::string& seed : espalier::testing::Chosen().seeds()) {
    std::ofstream(folder / absl::StrCat("seed", number++), std::ios::binary)
        << seed;
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  espalier::testing::Chosen().parse(
      {reinterpret_cast<const char*>(data), size});
  return 0;
}
