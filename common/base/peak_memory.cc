#include "common/base/peak_memory.h"

#include <fstream>
#include <string>

namespace espalier {

// Not getrusage: its peak includes that of the program that started us.
int64_t PeakResidentBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int64_t kib = 0;
    if (word == "VmHWM:" && status >> kib) return kib * 1024;
  }
  return 0;
}

}  // namespace espalier
