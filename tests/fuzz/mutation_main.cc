// fuzz NAME RUNS: a target on its seeds, then on RUNS mutations of them. The
// mutations are the same in every run. An input that ends the program is
// written to crash-input in the current folder.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "tests/fuzz/fuzz_targets.h"

namespace espalier::testing {
namespace {

std::string current;  // the input that is tried

void SaveInput(int signal) {
  const int file = open("crash-input", O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (write(file, current.data(), current.size()) >= 0) close(file);
  ::signal(signal, SIG_DFL);
  raise(signal);
}

// Numbers that lengths and counts are compared with.
constexpr uint64_t kEdges[] = {0,       1,          0x7F,       0x80,
                               0xFF,    0xFFFF,     0x7FFFFFFF, 0x80000000,
                               1 << 20, 0xFFFFFFFF, ~0ull >> 1, ~0ull};

void Mutate(const std::vector<std::string>& seeds, std::mt19937& random,
            std::string& bytes) {
  const size_t at = random() % bytes.size();
  switch (random() % 7) {
    case 0:
      bytes[at] = static_cast<char>(random());
      break;
    case 1:
      bytes[at] ^= static_cast<char>(1 << random() % 8);
      break;
    case 2:
      bytes.erase(at, 1 + random() % 8);
      break;
    case 3:
      bytes.insert(at, 1, static_cast<char>(random()));
      break;
    case 4:  // repeats a part
      bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 64));
      break;
    case 5: {  // a number
      const uint64_t edge = kEdges[random() % std::size(kEdges)];
      for (size_t i = 0; i < 8 && at + i < bytes.size(); ++i) {
        bytes[at + i] = static_cast<char>(edge >> (8 * i));
      }
      break;
    }
    default: {  // the end of another input
      const std::string& other = seeds[random() % seeds.size()];
      bytes = bytes.substr(0, at) + other.substr(random() % other.size());
    }
  }
}

void Run(const FuzzTarget& target, int64_t runs) {
  const std::vector<std::string> seeds = target.seeds();
  for (const std::string& seed : seeds) {
    ESPALIER_CHECK(target.parse(current = seed));
  }
  target.parse(current = "");
  std::mt19937 random(1);
  int64_t accepted = 0;
  for (int64_t run = 0; run < runs; ++run) {
    current = seeds[random() % seeds.size()];
    for (uint32_t change = 1 + random() % 4; change > 0; --change) {
      if (!current.empty()) Mutate(seeds, random, current);
    }
    accepted += target.parse(current);
  }
  std::printf("%zu seeds, %lld mutations, %lld of them accepted\n",
              seeds.size(), static_cast<long long>(runs),
              static_cast<long long>(accepted));
}

}  // namespace
}  // namespace espalier::testing

int main(int argc, char** argv) {
  for (int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
    ::signal(signal, espalier::testing::SaveInput);
  }
  espalier::testing::Run(
      espalier::testing::FindFuzzTarget(argc > 1 ? argv[1] : ""),
      argc > 2 ? std::atoll(argv[2]) : 1000);
  return 0;
}
