// A fuzz target: a parser of untrusted bytes, and inputs to begin with. Each
// target is one file that defines both functions. libfuzzer_main.cc runs it
// with clang, mutation_main.cc with other compilers.
#ifndef ESPALIER_TESTS_FUZZ_FUZZ_TARGET_H_
#define ESPALIER_TESTS_FUZZ_FUZZ_TARGET_H_

#include <string>
#include <string_view>
#include <vector>

namespace espalier::testing {

// Small well-formed inputs.
std::vector<std::string> Seeds();

// Parses `bytes`, and says whether the parser accepts them. ESPALIER_CHECK
// fails where the parser breaks a promise; a refused input is none. REQUIRES:
// it accepts the seeds.
bool Try(std::string_view bytes);

}  // namespace espalier::testing

#endif  // ESPALIER_TESTS_FUZZ_FUZZ_TARGET_H_
