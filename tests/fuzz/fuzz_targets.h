// Fuzz targets: parsers of untrusted bytes, and inputs to begin with. Each
// target is one file; fuzz_targets.cc lists them. libfuzzer_main.cc runs them
// with clang, mutation_main.cc with other compilers.
#ifndef ESPALIER_TESTS_FUZZ_FUZZ_TARGETS_H_
#define ESPALIER_TESTS_FUZZ_FUZZ_TARGETS_H_

#include <string>
#include <string_view>
#include <vector>

namespace espalier::testing {

struct FuzzTarget {
  std::string_view name;
  // Returns small well-formed inputs.
  std::vector<std::string> (*seeds)();
  // Parses `bytes` and returns whether the parser accepts them; it accepts the
  // seeds. ESPALIER_CHECK fails where the parser breaks a promise.
  bool (*parse)(std::string_view bytes);
};

// Returns all targets of this build.
std::vector<FuzzTarget> FuzzTargets();

// Returns the target `name`; ends the program with a list of the names if
// there is none.
FuzzTarget FindFuzzTarget(std::string_view name);

}  // namespace espalier::testing

#endif  // ESPALIER_TESTS_FUZZ_FUZZ_TARGETS_H_
