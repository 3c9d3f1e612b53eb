#include "common/chat/jinja/budget.h"

#include <algorithm>
#include <ctime>

#include "common/chat/jinja/error.h"

namespace espalier::jinja {
namespace {

constexpr size_t kCharactersPerUnit = 16;  // 64 bytes
constexpr int64_t kUnitsPerValue = 4;      // about 256 bytes
constexpr int64_t kUnitsPerLookAtTheClock = 1024;
// A length that was computed may be larger than any text.
constexpr size_t kMaxUnits = size_t{1} << 40;

double ProcessorSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) +
         static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace

Budget::Budget(int64_t units)
    : left_(units),
      next_look_(units),
      end_(ProcessorSeconds() + static_cast<double>(kSeconds)) {}

void Budget::Spend(int64_t units) {
  left_ -= units;
  if (left_ < 0) throw Error("it makes too much text or work");
  if (left_ > next_look_) return;
  next_look_ = left_ - kUnitsPerLookAtTheClock;
  if (ProcessorSeconds() > end_) throw Error("it takes too long");
}

void Budget::SpendCharacters(size_t count) {
  Spend(static_cast<int64_t>(
      std::min(count / kCharactersPerUnit + 1, kMaxUnits)));
}

void Budget::SpendValue() { Spend(kUnitsPerValue); }

void Budget::SpendValues(size_t count) {
  Spend(kUnitsPerValue * static_cast<int64_t>(std::min(count, kMaxUnits)));
}

Step::Step(Budget& budget) : budget_(budget) {
  budget.Spend(1);
  if (budget.depth_ >= Budget::kDepth) throw Error("it nests too deeply");
  ++budget.depth_;
}

}  // namespace espalier::jinja
