#include "common/chat/jinja/string_literal.h"

#include "absl/strings/str_cat.h"

namespace espalier::jinja {
namespace {

constexpr CharactersView kLetters = U"\\'\"abfnrtv";
constexpr CharactersView kMeanings = U"\\'\"\a\b\f\n\r\t\v";

int HexDigit(char32_t c) {
  if (c >= U'0' && c <= U'9') return static_cast<int>(c - U'0');
  const char32_t lower = c | 0x20;
  if (lower >= U'a' && lower <= U'f')
    return static_cast<int>(lower - U'a') + 10;
  return -1;
}

// Reads the number in `count` hexadecimal digits at `at`; -1: they are not
// there.
int64_t HexNumber(CharactersView text, size_t at, size_t count) {
  if (at + count > text.size()) return -1;
  int64_t number = 0;
  for (size_t i = at; i < at + count; ++i) {
    const int digit = HexDigit(text[i]);
    if (digit < 0) return -1;
    number = number * 16 + digit;
  }
  return number;
}

// Reads the escape after the backslash at `at` - 1; returns where it ends.
size_t ReadEscape(CharactersView text, size_t at, Characters& out,
                  std::string& problem) {
  const char32_t c = text[at];
  const size_t known = kLetters.find(c);
  if (known != kNowhere) {
    out.push_back(kMeanings[known]);
    return at + 1;
  }
  if (c == U'\n') return at + 1;
  if (c >= U'0' && c <= U'7') {
    char32_t number = 0;
    size_t end = at;
    while (end < text.size() && end < at + 3 && text[end] >= U'0' &&
           text[end] <= U'7') {
      number = number * 8 + (text[end++] - U'0');
    }
    out.push_back(number);
    return end;
  }
  const size_t digits = c == U'x' ? 2 : c == U'u' ? 4 : c == U'U' ? 8 : 0;
  if (digits > 0) {
    const int64_t number = HexNumber(text, at + 1, digits);
    const bool surrogate = number >= 0xD800 && number <= 0xDFFF;
    if (number < 0 || number > 0x10FFFF || surrogate) {
      problem = absl::StrCat("a malformed escape \\", ToUtf8({&c, 1}));
      return text.size();
    }
    out.push_back(static_cast<char32_t>(number));
    return at + 1 + digits;
  }
  if (c == U'N') {
    problem = "the escape \\N is not supported";
    return text.size();
  }
  out.push_back(U'\\');
  out.push_back(c);
  return at + 1;
}

}  // namespace

Characters Unescaped(CharactersView text, std::string& problem) {
  Characters out;
  for (size_t at = 0; at < text.size();) {
    if (text[at] != U'\\' || at + 1 >= text.size()) {
      out.push_back(text[at++]);
    } else {
      at = ReadEscape(text, at + 1, out, problem);
    }
  }
  return out;
}

}  // namespace espalier::jinja
