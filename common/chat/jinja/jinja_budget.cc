#include "common/chat/jinja/jinja_budget.h"

#include <ctime>

namespace espalier {
namespace {

constexpr size_t kBytesPerUnit = 64;
constexpr int64_t kUnitsPerValue = 4;  // about 256 bytes
constexpr int64_t kUnitsPerLookAtTheClock = 1024;

struct Spending {
  bool limited = false;
  int64_t left = 0;
  int64_t next_look = 0;  // look at the clock when so much is left
  double end = 0;         // seconds of the thread's processor time
  int depth = 0;
};

thread_local Spending spending;

double ProcessorSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) +
         static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace

JinjaBudget::JinjaBudget(int64_t units) {
  spending = {.limited = true,
              .left = units,
              .next_look = units,
              .end = ProcessorSeconds() + kJinjaSeconds};
}

JinjaBudget::~JinjaBudget() { spending = {}; }

void SpendJinja(int64_t units) {
  if (!spending.limited) return;
  spending.left -= units;
  if (spending.left < 0) throw JinjaLimit{"it makes too much text or work"};
  if (spending.left > spending.next_look) return;
  spending.next_look = spending.left - kUnitsPerLookAtTheClock;
  if (ProcessorSeconds() > spending.end) throw JinjaLimit{"it takes too long"};
}

void SpendJinjaValue() { SpendJinja(kUnitsPerValue); }

void SpendJinjaText(size_t bytes) {
  // A length that was computed may be larger than any text.
  const size_t units = bytes / kBytesPerUnit;
  constexpr size_t kMost = size_t{1} << 40;
  SpendJinja(static_cast<int64_t>(units < kMost ? units : kMost));
}

JinjaStep::JinjaStep() {
  SpendJinja(1);
  if (++spending.depth > kJinjaDepth && spending.limited) {
    --spending.depth;
    throw JinjaLimit{"it nests too deeply"};
  }
}

JinjaStep::~JinjaStep() { --spending.depth; }

}  // namespace espalier
