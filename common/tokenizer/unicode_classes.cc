#include "common/tokenizer/unicode_classes.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace espalier {
namespace {

constexpr int kClassBits = 6;  // four of CharClass, IsNumeric, IsWordPart
constexpr uint32_t kClassMask = 15;
constexpr uint32_t kNumericBit = 16;
constexpr uint32_t kWordBit = 32;
constexpr uint32_t kAllBits = kClassMask | kNumericBit | kWordBit;

constexpr uint32_t kRuns[] = {
#include "common/tokenizer/unicode_class_runs.inc"
};

constexpr uint32_t SearchRuns(char32_t code_point) {
  const uint32_t key =
      (static_cast<uint32_t>(code_point) << kClassBits) | kAllBits;
  return *std::prev(std::upper_bound(std::begin(kRuns), std::end(kRuns), key));
}

// A table for ASCII, because most text needs no search.
constexpr auto kAscii = [] {
  std::array<uint8_t, 128> table{};
  for (uint32_t c = 0; c < table.size(); ++c) {
    table[c] = static_cast<uint8_t>(SearchRuns(c) & kAllBits);
  }
  return table;
}();

uint32_t Lookup(char32_t code_point) {
  return code_point < kAscii.size() ? kAscii[code_point]
                                    : SearchRuns(code_point);
}

}  // namespace

CharClass ClassOf(char32_t code_point) {
  return static_cast<CharClass>(Lookup(code_point) & kClassMask);
}

bool IsNumeric(char32_t code_point) {
  return (Lookup(code_point) & kNumericBit) != 0;
}

bool IsWordPart(char32_t code_point) {
  return (Lookup(code_point) & kWordBit) != 0;
}

}  // namespace espalier
