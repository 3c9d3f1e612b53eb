#include "common/tokenizer/normal_forms.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "absl/container/flat_hash_map.h"
#include "common/base/utf8.h"

namespace espalier {
namespace {

struct Decomposition {
  char32_t whole = 0;
  char32_t first = 0;
  char32_t second = 0;    // 0: none
  bool composes = false;  // whether NFC composes the parts again
};

// `count` characters of kCompatible from `begin` on: all that is left of the
// character in forms KC and KD, decomposed.
struct Compatibility {
  char32_t whole = 0;
  int begin = 0;
  int count = 0;
};

// Characters of one canonical combining class other than 0.
struct ClassRun {
  char32_t begin = 0;
  char32_t end = 0;
  int combining_class = 0;
};

// All ascending, but for kCompatible.
#include "common/tokenizer/normal_form_tables.inc"

// Hangul syllables are numbered by leading consonant, vowel, and trailing
// consonant or none.
constexpr char32_t kSyllables = 0xAC00, kLeads = 0x1100, kVowels = 0x1161,
                   kTrails = 0x11A7;  // kTrails itself: no trailing consonant
constexpr uint32_t kNumLeads = 19, kNumVowels = 21, kNumTrails = 28;
constexpr uint32_t kNumSyllables = kNumLeads * kNumVowels * kNumTrails;

// Every character below this one is in form C and combines with no character
// before it.
constexpr char32_t kFirstCombining = 0x300;

// Returns whether the form changes nothing, at a glance.
bool IsSimple(std::string_view text, NormalForm form) {
  // U+0300 is CC 80 in UTF-8. Other forms change characters from U+00A0 on.
  const unsigned char first = form == NormalForm::kNfc ? 0xCC : 0x80;
  return std::all_of(text.begin(), text.end(), [first](char c) {
    return static_cast<unsigned char>(c) < first;
  });
}

int CombiningClass(char32_t c) {
  if (c < kFirstCombining) return 0;
  const auto* run = std::upper_bound(
      std::begin(kClassRuns), std::end(kClassRuns), c,
      [](char32_t value, const ClassRun& r) { return value < r.end; });
  return run != std::end(kClassRuns) && run->begin <= c ? run->combining_class
                                                        : 0;
}

void AppendDecomposed(char32_t c, std::u32string& out) {
  if (const uint32_t index = c - kSyllables; index < kNumSyllables) {
    out.push_back(kLeads + index / (kNumVowels * kNumTrails));
    out.push_back(kVowels + index / kNumTrails % kNumVowels);
    if (index % kNumTrails != 0) out.push_back(kTrails + index % kNumTrails);
    return;
  }
  const auto* entry = std::lower_bound(
      std::begin(kDecompositions), std::end(kDecompositions), c,
      [](const Decomposition& d, char32_t value) { return d.whole < value; });
  if (entry == std::end(kDecompositions) || entry->whole != c) {
    out.push_back(c);
    return;
  }
  AppendDecomposed(entry->first, out);
  if (entry->second != 0) AppendDecomposed(entry->second, out);
}

void AppendCompatible(char32_t c, std::u32string& out) {
  const auto* entry = std::lower_bound(
      std::begin(kCompatibilities), std::end(kCompatibilities), c,
      [](const Compatibility& d, char32_t value) { return d.whole < value; });
  if (entry == std::end(kCompatibilities) || entry->whole != c) {
    AppendDecomposed(c, out);
    return;
  }
  out.append(kCompatible + entry->begin, entry->count);
}

// Sorts the combining marks after each character by their classes.
void SortMarks(std::u32string& text) {
  for (auto begin = text.begin(); begin != text.end();) {
    if (CombiningClass(*begin) == 0) {
      ++begin;
      continue;
    }
    const auto end = std::find_if(
        begin, text.end(), [](char32_t c) { return CombiningClass(c) == 0; });
    std::stable_sort(begin, end, [](char32_t a, char32_t b) {
      return CombiningClass(a) < CombiningClass(b);
    });
    begin = end;
  }
}

using Compositions = absl::flat_hash_map<uint64_t, char32_t>;

uint64_t PairKey(char32_t first, char32_t second) {
  return uint64_t{first} << 32 | second;
}

Compositions MakeCompositions() {
  Compositions compositions;
  for (const Decomposition& d : kDecompositions) {
    if (d.composes && d.second != 0) {
      compositions[PairKey(d.first, d.second)] = d.whole;
    }
  }
  return compositions;
}

// Returns the composed character; 0: the two do not compose.
char32_t Compose(char32_t first, char32_t second) {
  const uint32_t lead = first - kLeads, vowel = second - kVowels;
  if (lead < kNumLeads && vowel < kNumVowels) {
    return kSyllables + (lead * kNumVowels + vowel) * kNumTrails;
  }
  const uint32_t syllable = first - kSyllables, trail = second - kTrails;
  if (syllable < kNumSyllables && syllable % kNumTrails == 0 && trail > 0 &&
      trail < kNumTrails) {
    return first + trail;
  }
  static const Compositions& compositions =
      *new Compositions(MakeCompositions());
  const auto found = compositions.find(PairKey(first, second));
  return found == compositions.end() ? 0 : found->second;
}

// Composes each character with the last one of class 0 before it, unless a
// character of at least its own class is between them.
std::u32string Composed(const std::u32string& text) {
  std::u32string out;
  size_t starter = std::u32string::npos;
  int last_class = 0;  // of the last character after the starter
  for (char32_t c : text) {
    const int combining_class = CombiningClass(c);
    const bool adjacent = starter + 1 == out.size();
    if (starter != std::u32string::npos &&
        (adjacent || last_class < combining_class)) {
      if (const char32_t whole = Compose(out[starter], c); whole != 0) {
        out[starter] = whole;
        continue;
      }
    }
    if (combining_class == 0) starter = out.size();
    last_class = combining_class;
    out.push_back(c);
  }
  return out;
}

}  // namespace

const char* NameOf(NormalForm form) {
  switch (form) {
    case NormalForm::kNfc:
      return "NFC";
    case NormalForm::kNfd:
      return "NFD";
    case NormalForm::kNfkc:
      return "NFKC";
    case NormalForm::kNfkd:
      return "NFKD";
  }
  return "";
}

std::string ToNormalForm(std::string_view text, NormalForm form) {
  if (IsSimple(text, form)) return std::string(text);
  const bool compatible =
      form == NormalForm::kNfkc || form == NormalForm::kNfkd;
  const bool composes = form == NormalForm::kNfc || form == NormalForm::kNfkc;
  std::u32string characters;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = CodePointAt(text, at);
    if (compatible) {
      AppendCompatible(c.value, characters);
    } else {
      AppendDecomposed(c.value, characters);
    }
    at += c.size;
  }
  SortMarks(characters);
  if (composes) characters = Composed(characters);
  std::string normal;
  for (char32_t c : characters) AppendUtf8(c, normal);
  return normal;
}

}  // namespace espalier
