#include <algorithm>
#include <iterator>

#include "common/base/utf8.h"
#include "common/tokenizer/normal_forms.h"

namespace espalier {
namespace {

struct LetterCase {
  char32_t upper = 0;
  char32_t lower = 0;
};

// Ascending.
#include "common/tokenizer/lower_case_pairs.inc"

// The only letter that becomes two characters.
constexpr char32_t kDottedI = 0x130;
constexpr char32_t kDotAbove = 0x307;

char32_t LowerOf(char32_t c) {
  if (c == kDottedI) return 'i';
  const auto* pair = std::lower_bound(
      std::begin(kLetterCases), std::end(kLetterCases), c,
      [](const LetterCase& p, char32_t value) { return p.upper < value; });
  return pair != std::end(kLetterCases) && pair->upper == c ? pair->lower : c;
}

}  // namespace

std::string LowerCase(std::string_view text) {
  std::string lower;
  lower.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = CodePointAt(text, at);
    AppendUtf8(LowerOf(c.value), lower);
    if (c.value == kDottedI) AppendUtf8(kDotAbove, lower);
    at += c.size;
  }
  return lower;
}

}  // namespace espalier
