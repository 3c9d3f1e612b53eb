#include "common/grammar/regex_characters.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace espalier::grammar {
namespace {

absl::Status NotSupported(absl::string_view what) {
  return absl::InvalidArgumentError(what);
}

CodePoints Digits() { return {{'0', '9'}}; }

CodePoints WordCharacters() {
  return {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
}

CodePoints Blanks(RegexClasses classes) {
  CodePoints blanks = {{'\t', '\r'}, {' ', ' '}};
  if (classes == RegexClasses::kCommon) return blanks;
  for (const uint32_t c :
       {0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000, 0xFEFF}) {
    blanks.Add(c, c);
  }
  blanks.Add(0x2000, 0x200A);
  return blanks;
}

// Scripts without digits of their own: Latin, Greek, Cyrillic, kana, Chinese
// characters, Hangul.
void AddLetters(CodePoints& characters) {
  characters.Add(0xA0, 0x052F);
  characters.Add(0x3040, 0x30FF);
  characters.Add(0x4E00, 0x9FFF);
  characters.Add(0xAC00, 0xD7A3);
}

// Marks that are no letter, digit or blank of any kind.
void AddMarks(CodePoints& characters) {
  characters.Add(0x2010, 0x2027);
  characters.Add(0x2030, 0x205E);
  characters.Add(0x20A0, 0x20BF);
  characters.Add(0x2190, 0x23FF);
}

CodePoints NoDigits(RegexClasses classes) {
  if (classes == RegexClasses::kJavaScript) return Digits().Complement();
  CodePoints all = Digits().Complement().Intersection({{0, 0x7F}});
  AddLetters(all);
  AddMarks(all);
  return all;
}

CodePoints NoWordCharacters(RegexClasses classes) {
  if (classes == RegexClasses::kJavaScript) {
    return WordCharacters().Complement();
  }
  CodePoints all = WordCharacters().Complement().Intersection({{0, 0x7F}});
  AddMarks(all);
  return all;
}

CodePoints NoBlanks(RegexClasses classes) {
  CodePoints blanks = Blanks(RegexClasses::kJavaScript);
  if (classes == RegexClasses::kCommon) {
    blanks.Add(0x1C, 0x1F);
    blanks.Add(0x85, 0x85);
  }
  return blanks.Complement();
}

std::optional<uint32_t> HexDigit(uint32_t c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

// Reads the number of `digits` digits at text[at], which moves behind them.
std::optional<uint32_t> Hex(absl::Span<const uint32_t> text, size_t& at,
                            size_t digits) {
  if (at + digits > text.size()) return std::nullopt;
  uint32_t number = 0;
  for (size_t i = 0; i < digits; ++i) {
    const auto digit = HexDigit(text[at + i]);
    if (!digit) return std::nullopt;
    number = number << 4 | *digit;
  }
  at += digits;
  return number;
}

// After \u.
absl::StatusOr<CodePoints> UnicodeEscape(absl::Span<const uint32_t> text,
                                         size_t& at) {
  std::optional<uint32_t> number;
  if (at < text.size() && text[at] == '{') {
    size_t end = ++at;
    while (end < text.size() && end - at < 8 && HexDigit(text[end])) ++end;
    if (end > at && end < text.size() && text[end] == '}') {
      number = Hex(text, at, end - at);
      ++at;
    }
  } else {
    number = Hex(text, at, 4);
    if (number && *number >= 0xD800 && *number < 0xDC00) {
      size_t next = at + 2;
      const bool follows =
          next < text.size() && text[at] == '\\' && text[at + 1] == 'u';
      const auto low = follows ? Hex(text, next, 4) : std::nullopt;
      if (low && *low >= 0xDC00 && *low < 0xE000) {
        at = next;
        number = 0x10000 + ((*number - 0xD800) << 10) + (*low - 0xDC00);
      }
    }
  }
  if (!number)
    return NotSupported("\\u needs 4 hexadecimal digits, or some in {}");
  if (!CodePoints::All().Contains(*number)) {
    return NotSupported(
        absl::StrCat("\\u", absl::Hex(*number), " is no character"));
  }
  return CodePoints{{*number, *number}};
}

std::optional<CodePoints> NamedEscape(uint32_t c, RegexClasses classes) {
  switch (c) {
    case 'd':
      return Digits();
    case 'D':
      return NoDigits(classes);
    case 'w':
      return WordCharacters();
    case 'W':
      return NoWordCharacters(classes);
    case 's':
      return Blanks(classes);
    case 'S':
      return NoBlanks(classes);
    case 't':
      return CodePoints{{'\t', '\t'}};
    case 'n':
      return CodePoints{{'\n', '\n'}};
    case 'v':
      return CodePoints{{'\v', '\v'}};
    case 'f':
      return CodePoints{{'\f', '\f'}};
    case 'r':
      return CodePoints{{'\r', '\r'}};
    default:
      return std::nullopt;
  }
}

bool IsAsciiLetterOrDigit(uint32_t c) {
  return c != '_' && WordCharacters().Contains(c);
}

}  // namespace

CodePoints AnyButLineEnds() {
  return CodePoints{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}.Complement();
}

absl::StatusOr<CodePoints> ParseEscape(absl::Span<const uint32_t> text,
                                       size_t& at, RegexClasses classes,
                                       bool in_class) {
  ++at;
  if (at >= text.size()) return NotSupported("ends in a backslash");
  const uint32_t c = text[at++];
  if (auto named = NamedEscape(c, classes)) return *std::move(named);
  if (c == 'u') return UnicodeEscape(text, at);
  if (c == 'x') {
    const auto number = Hex(text, at, 2);
    if (!number) return NotSupported("\\x needs 2 hexadecimal digits");
    return CodePoints{{*number, *number}};
  }
  if (c == 'c' && at < text.size() && IsAsciiLetterOrDigit(text[at]) &&
      text[at] > '9') {
    const uint32_t control = text[at++] % 32;
    return CodePoints{{control, control}};
  }
  if (c == 'b' && in_class) return CodePoints{{'\b', '\b'}};
  if (c == '0' && (at == text.size() || !Digits().Contains(text[at]))) {
    return CodePoints{{0, 0}};
  }
  if (IsAsciiLetterOrDigit(c)) {
    return NotSupported(absl::StrCat("\\", Utf8Of(c), " is not supported"));
  }
  return CodePoints{{c, c}};
}

absl::StatusOr<CodePoints> ParseClass(absl::Span<const uint32_t> text,
                                      size_t& at, RegexClasses classes) {
  ++at;
  const bool is_negative = at < text.size() && text[at] == '^';
  if (is_negative) ++at;
  if (at < text.size() && text[at] == ']') {
    return NotSupported("[] and [^] are not supported");
  }
  const auto next = [&]() -> absl::StatusOr<CodePoints> {
    if (text[at] == '\\') return ParseEscape(text, at, classes, true);
    const uint32_t c = text[at++];
    return CodePoints{{c, c}};
  };
  const auto is_single = [](const CodePoints& set) {
    return set.ranges().size() == 1 &&
           set.ranges()[0].first == set.ranges()[0].last;
  };
  CodePoints all;
  while (at < text.size() && text[at] != ']') {
    ASSIGN_OR_RETURN(const CodePoints first, next());
    const bool is_range =
        at + 1 < text.size() && text[at] == '-' && text[at + 1] != ']';
    if (!is_range) {
      all.Add(first);
      continue;
    }
    ++at;
    ASSIGN_OR_RETURN(const CodePoints last, next());
    if (!is_single(first) || !is_single(last) ||
        first.ranges()[0].first > last.ranges()[0].first) {
      return NotSupported("a range of a class has no order");
    }
    all.Add(first.ranges()[0].first, last.ranges()[0].first);
  }
  if (at >= text.size()) return NotSupported("a class has no end");
  ++at;
  return is_negative ? all.Complement() : all;
}

}  // namespace espalier::grammar
