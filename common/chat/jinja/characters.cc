#include "common/chat/jinja/characters.h"

#include <unicode/uchar.h>
#include <unicode/ustring.h>

#include <algorithm>

#include "common/base/utf8.h"

namespace espalier::jinja {
namespace {

constexpr char32_t kReplacement = 0xFFFD;
constexpr char32_t kCapitalSigma = 0x3A3;
constexpr char32_t kSmallSigma = 0x3C3;
constexpr char32_t kFinalSigma = 0x3C2;

bool Has(char32_t c, UProperty property) {
  return u_hasBinaryProperty(static_cast<UChar32>(Bare(c)), property) != 0;
}

uint32_t CategoryBit(char32_t c) {
  return U_MASK(u_charType(static_cast<UChar32>(Bare(c))));
}

enum class Mapping { kUpper, kLower, kTitle, kFold };

int32_t MapCharacter(Mapping mapping, const UChar* from, int32_t size,
                     UChar* to, int32_t capacity) {
  UErrorCode status = U_ZERO_ERROR;
  switch (mapping) {
    case Mapping::kUpper:
      return u_strToUpper(to, capacity, from, size, "", &status);
    case Mapping::kLower:
      return u_strToLower(to, capacity, from, size, "", &status);
    case Mapping::kTitle:
      return u_strToTitle(to, capacity, from, size, nullptr, "", &status);
    default:
      return u_strFoldCase(to, capacity, from, size, U_FOLD_CASE_DEFAULT,
                           &status);
  }
}

// Appends what one character becomes: at most three characters. Full mappings
// do not look at the neighbours, but for sigma.
void AppendMapped(Mapping mapping, char32_t marked, Characters& out) {
  const auto c = static_cast<UChar32>(Bare(marked));
  if (c < 0x80 && mapping != Mapping::kTitle) {
    const bool upper = mapping == Mapping::kUpper;
    const char32_t from = upper ? U'a' : U'A';
    const bool changes = Bare(marked) >= from && Bare(marked) < from + 26;
    out.push_back(changes ? marked ^ 0x20 : marked);
    return;
  }
  constexpr int32_t kMax = 16;
  UChar from[2];
  UChar to[kMax];
  int32_t size = 0;
  U16_APPEND_UNSAFE(from, size, c);
  const int32_t mapped = MapCharacter(mapping, from, size, to, kMax);
  for (int32_t at = 0; at < mapped && at < kMax;) {
    UChar32 one;
    U16_NEXT(to, at, mapped, one);
    out.push_back(Marked(static_cast<char32_t>(one), marked));
  }
}

// Returns whether the sigma at `at` ends a word (Unicode's Final_Sigma).
bool EndsWord(CharactersView text, size_t at) {
  size_t before = at;
  while (before > 0 && Has(text[before - 1], UCHAR_CASE_IGNORABLE)) --before;
  if (before == 0 || !Has(text[before - 1], UCHAR_CASED)) return false;
  size_t after = at + 1;
  while (after < text.size() && Has(text[after], UCHAR_CASE_IGNORABLE)) ++after;
  return after == text.size() || !Has(text[after], UCHAR_CASED);
}

void AppendLower(CharactersView text, size_t at, Characters& out) {
  if (Bare(text[at]) == kCapitalSigma) {
    out.push_back(
        Marked(EndsWord(text, at) ? kFinalSigma : kSmallSigma, text[at]));
  } else {
    AppendMapped(Mapping::kLower, text[at], out);
  }
}

Characters MapEach(Mapping mapping, CharactersView text) {
  Characters out;
  out.reserve(text.size());
  for (char32_t c : text) AppendMapped(mapping, c, out);
  return out;
}

}  // namespace

Characters FromUtf8(std::string_view text, bool from_input) {
  const std::string valid = RepairUtf8(text);
  const char32_t mark = from_input ? kFromInput : 0;
  Characters out;
  out.reserve(valid.size());
  for (size_t at = 0; at < valid.size();) {
    const CodePoint c = CodePointAt(valid, at);
    out.push_back(c.value | mark);
    at += c.size;
  }
  return out;
}

std::string ToUtf8(CharactersView text) {
  std::string out;
  out.reserve(text.size());
  for (char32_t c : text) {
    const char32_t bare = Bare(c);
    const bool bad = bare > 0x10FFFF || (bare >= 0xD800 && bare <= 0xDFFF);
    AppendUtf8(bad ? kReplacement : bare, out);
  }
  return out;
}

int Compare(CharactersView a, CharactersView b) {
  const size_t common = std::min(a.size(), b.size());
  for (size_t i = 0; i < common; ++i) {
    if (Bare(a[i]) != Bare(b[i])) return Bare(a[i]) < Bare(b[i]) ? -1 : 1;
  }
  if (a.size() == b.size()) return 0;
  return a.size() < b.size() ? -1 : 1;
}

bool Is(CharactersView a, std::string_view ascii) {
  return a.size() == ascii.size() &&
         std::equal(a.begin(), a.end(), ascii.begin(), [](char32_t x, char y) {
           return Bare(x) == static_cast<unsigned char>(y);
         });
}

bool StartsWith(CharactersView text, CharactersView prefix) {
  return text.size() >= prefix.size() &&
         Same(text.substr(0, prefix.size()), prefix);
}

bool EndsWith(CharactersView text, CharactersView suffix) {
  return text.size() >= suffix.size() &&
         Same(text.substr(text.size() - suffix.size()), suffix);
}

bool IsSpace(char32_t marked) {
  const char32_t c = Bare(marked);
  return (c >= 9 && c <= 13) || (c >= 28 && c <= 32) || c == 0x85 ||
         c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
         c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool IsPrintable(char32_t c) {
  if (Bare(c) == U' ') return true;
  return (CategoryBit(c) & (U_GC_C_MASK | U_GC_Z_MASK)) == 0;
}

bool IsAlpha(char32_t c) { return (CategoryBit(c) & U_GC_L_MASK) != 0; }

bool IsDecimal(char32_t c) { return (CategoryBit(c) & U_GC_ND_MASK) != 0; }

bool IsDigit(char32_t c) {
  const auto type =
      u_getIntPropertyValue(static_cast<UChar32>(Bare(c)), UCHAR_NUMERIC_TYPE);
  return type == U_NT_DECIMAL || type == U_NT_DIGIT;
}

bool IsNumeric(char32_t c) {
  return u_getIntPropertyValue(static_cast<UChar32>(Bare(c)),
                               UCHAR_NUMERIC_TYPE) != U_NT_NONE;
}

bool IsUpper(char32_t c) { return Has(c, UCHAR_UPPERCASE); }

bool IsLower(char32_t c) { return Has(c, UCHAR_LOWERCASE); }

bool IsTitle(char32_t c) { return (CategoryBit(c) & U_GC_LT_MASK) != 0; }

bool IsLineBreak(char32_t marked) {
  const char32_t c = Bare(marked);
  return (c >= 10 && c <= 13) || (c >= 28 && c <= 30) || c == 0x85 ||
         c == 0x2028 || c == 0x2029;
}

bool IsIdentifier(CharactersView text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const bool underscore = Bare(text[i]) == U'_';
    if (underscore) continue;
    if (!Has(text[i], i == 0 ? UCHAR_XID_START : UCHAR_XID_CONTINUE)) {
      return false;
    }
  }
  return !text.empty();
}

bool IsUpperText(CharactersView text) {
  bool cased = false;
  for (char32_t c : text) {
    if (IsLower(c) || IsTitle(c)) return false;
    cased = cased || IsUpper(c);
  }
  return cased;
}

bool IsLowerText(CharactersView text) {
  bool cased = false;
  for (char32_t c : text) {
    if (IsUpper(c) || IsTitle(c)) return false;
    cased = cased || IsLower(c);
  }
  return cased;
}

Characters Upper(CharactersView text) { return MapEach(Mapping::kUpper, text); }

Characters Lower(CharactersView text) {
  Characters out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) AppendLower(text, i, out);
  return out;
}

Characters CaseFold(CharactersView text) {
  return MapEach(Mapping::kFold, text);
}

Characters SwapCase(CharactersView text) {
  Characters out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (IsUpper(text[i])) {
      AppendLower(text, i, out);
    } else if (IsLower(text[i])) {
      AppendMapped(Mapping::kUpper, text[i], out);
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

Characters Title(CharactersView text) {
  Characters out;
  bool in_word = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (in_word) {
      AppendLower(text, i, out);
    } else {
      AppendMapped(Mapping::kTitle, text[i], out);
    }
    in_word = Has(text[i], UCHAR_CASED);
  }
  return out;
}

Characters Capitalize(CharactersView text) {
  Characters out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (i == 0) {
      AppendMapped(Mapping::kTitle, text[i], out);
    } else {
      AppendLower(text, i, out);
    }
  }
  return out;
}

}  // namespace espalier::jinja
