#ifndef ESPALIER_COMMON_CHAT_JINJA_CHARACTERS_H_
#define ESPALIER_COMMON_CHAT_JINJA_CHARACTERS_H_

#include <string>
#include <string_view>

namespace espalier::jinja {

// A text as Python has it: code points. The top bit of each says that it comes
// from the input, that is, perhaps from a user; it stays with the character
// whatever is done to the text.
using Characters = std::u32string;
using CharactersView = std::u32string_view;

inline constexpr char32_t kFromInput = char32_t{1} << 31;

inline constexpr size_t kNowhere = CharactersView::npos;

// The code point without the mark.
inline constexpr char32_t Bare(char32_t c) { return c & ~kFromInput; }
// `c` with the mark of `like`.
inline constexpr char32_t Marked(char32_t c, char32_t like) {
  return Bare(c) | (like & kFromInput);
}

// Ill-formed UTF-8 becomes U+FFFD.
Characters FromUtf8(std::string_view text, bool from_input = false);
// Without the marks. Surrogates become U+FFFD.
std::string ToUtf8(CharactersView text);

// Order and equality of code points; marks do not count.
int Compare(CharactersView a, CharactersView b);
inline bool Same(CharactersView a, CharactersView b) {
  return a.size() == b.size() && Compare(a, b) == 0;
}
bool Is(CharactersView a, std::string_view ascii);
bool StartsWith(CharactersView text, CharactersView prefix);
bool EndsWith(CharactersView text, CharactersView suffix);

inline bool IsAsciiDigit(char32_t c) {
  return Bare(c) >= U'0' && Bare(c) <= U'9';
}

// Python's classes and mappings of characters, of ICU's Unicode version.
bool IsSpace(char32_t c);
bool IsPrintable(char32_t c);
bool IsAlpha(char32_t c);
bool IsDecimal(char32_t c);
bool IsDigit(char32_t c);
bool IsNumeric(char32_t c);
bool IsUpper(char32_t c);
bool IsLower(char32_t c);
bool IsTitle(char32_t c);
inline bool IsAlnum(char32_t c) {
  return IsAlpha(c) || IsDecimal(c) || IsDigit(c) || IsNumeric(c);
}
bool IsLineBreak(char32_t c);  // as str.splitlines has it
bool IsIdentifier(CharactersView text);
// Returns whether it has letters with case, and all of them are upper or lower.
bool IsUpperText(CharactersView text);
bool IsLowerText(CharactersView text);

Characters Upper(CharactersView text);
Characters Lower(CharactersView text);
Characters CaseFold(CharactersView text);
Characters SwapCase(CharactersView text);
Characters Title(CharactersView text);
Characters Capitalize(CharactersView text);

}  // namespace espalier::jinja

#endif  // ESPALIER_COMMON_CHAT_JINJA_CHARACTERS_H_
