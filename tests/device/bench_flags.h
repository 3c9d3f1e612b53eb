#ifndef ESPALIER_TESTS_DEVICE_BENCH_FLAGS_H_
#define ESPALIER_TESTS_DEVICE_BENCH_FLAGS_H_

#include <set>
#include <string>

namespace espalier::cuda {

// [--device cuda|emulated] [--json FILE] [NAME...]
struct BenchFlags {
  BenchFlags(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
      const std::string arg = argv[i];
      if (arg == "--device" && i + 1 < argc) {
        emulated = std::string(argv[++i]) == "emulated";
      } else if (arg == "--json" && i + 1 < argc) {
        json = argv[++i];
      } else {
        names.insert(arg);
      }
    }
  }

  bool emulated = false;
  std::string json;             // empty: no file
  std::set<std::string> names;  // of what is measured; empty: all
};

}  // namespace espalier::cuda

#endif  // ESPALIER_TESTS_DEVICE_BENCH_FLAGS_H_
