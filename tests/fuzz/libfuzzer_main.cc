// fuzz_X [flags of libFuzzer] FOLDER: libFuzzer over the target. The seeds are
// written to FOLDER first; libFuzzer adds what it finds.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  const std::filesystem::path folder = (*argv)[*argc - 1];
  if (*argc < 2 || !std::filesystem::is_directory(folder)) return 0;
  int number = 0;
  for (const std::string& seed : espalier::testing::Seeds()) {
    std::ofstream(folder / absl::StrCat("seed", number++), std::ios::binary)
        << seed;
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  espalier::testing::Try({reinterpret_cast<const char*>(data), size});
  return 0;
}
