#include "common/tokenizer/pre_tokenizer.h"

#include <array>
#include <cstddef>
#include <string>

#include "absl/strings/ascii.h"
#include "common/base/utf8.h"
#include "common/tokenizer/unicode_classes.h"

namespace espalier {
namespace {

// Bytes of the contraction at the front of `text`, or 0.
size_t ContractionSize(std::string_view text) {
  static constexpr std::array<std::string_view, 7> kContractions = {
      "'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
  if (text[0] != '\'') return 0;
  for (std::string_view contraction : kContractions) {
    if (text.substr(0, contraction.size()) == contraction) {
      return contraction.size();
    }
  }
  return 0;
}

struct Run {
  size_t end = 0;
  size_t last = 0;  // start of its last character
};

// The characters of class `kind` from `at` on.
Run RunOf(CharClass kind, std::string_view text, size_t at) {
  Run run{.end = at, .last = at};
  while (run.end < text.size()) {
    const CodePoint c = CodePointAt(text, run.end);
    if (ClassOf(c.value) != kind) break;
    run.last = run.end;
    run.end += c.size;
  }
  return run;
}

// End of the word at `begin` by GPT-2's pattern, written by hand:
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
size_t Gpt2WordEnd(std::string_view text, size_t begin) {
  if (size_t size = ContractionSize(text.substr(begin)); size > 0) {
    return begin + size;
  }
  size_t at = begin;
  CharClass kind = ClassOf(CodePointAt(text, at).value);
  if (text[begin] == ' ' && begin + 1 < text.size()) {
    const CharClass next = ClassOf(CodePointAt(text, begin + 1).value);
    if (next != CharClass::kSpace) {
      kind = next;
      at = begin + 1;
    }
  }
  const Run run = RunOf(kind, text, at);
  if (kind != CharClass::kSpace || run.end == text.size()) return run.end;
  // The last space belongs to the word that follows, unless it is the only one.
  return run.last > begin ? run.last : run.end;
}

// As ContractionSize, case-insensitive; "\u017F" is another small s.
size_t AnyCaseContractionSize(std::string_view text) {
  constexpr std::string_view kLongS = "'\xC5\xBF";
  if (text.substr(0, kLongS.size()) == kLongS) return kLongS.size();
  std::string front(text.substr(0, 3));
  for (char& c : front) c = absl::ascii_tolower(static_cast<unsigned char>(c));
  return ContractionSize(front);
}

bool IsLineBreak(char c) { return c == '\r' || c == '\n'; }

CharClass ClassAt(std::string_view text, size_t at) {
  return at < text.size() ? ClassOf(CodePointAt(text, at).value)
                          : CharClass::kSpace;
}

// End of the word that consists of the white space at `begin`: after its last
// line break, or as GPT-2's pattern.
size_t SpaceEnd(std::string_view text, size_t begin) {
  const Run run = RunOf(CharClass::kSpace, text, begin);
  for (size_t end = run.end; end > begin; --end) {
    if (IsLineBreak(text[end - 1])) return end;
  }
  if (run.end == text.size()) return run.end;
  return run.last > begin ? run.last : run.end;
}

// End of at most `most` numbers from `at` on.
size_t NumbersEnd(std::string_view text, size_t at, int most) {
  for (; most > 0 && at < text.size(); --most) {
    const CodePoint c = CodePointAt(text, at);
    if (ClassOf(c.value) != CharClass::kNumber) break;
    at += c.size;
  }
  return at;
}

// End of the word at `begin` by kQwen2Pattern, or kLlama3Pattern, which differs
// in how many numbers make a word. Written by hand.
size_t Qwen2WordEnd(std::string_view text, size_t begin, int most_numbers) {
  if (size_t size = AnyCaseContractionSize(text.substr(begin)); size > 0) {
    return begin + size;
  }
  const CodePoint first = CodePointAt(text, begin);
  const size_t second = begin + first.size;
  const CharClass kind = ClassOf(first.value), next = ClassAt(text, second);
  if (kind == CharClass::kNumber) {
    return NumbersEnd(text, begin, most_numbers);
  }
  if (kind == CharClass::kLetter ||
      (next == CharClass::kLetter && !IsLineBreak(text[begin]))) {
    return RunOf(CharClass::kLetter, text, second).end;
  }
  if (kind == CharClass::kOther ||
      (text[begin] == ' ' && next == CharClass::kOther)) {
    size_t end = RunOf(CharClass::kOther, text, second).end;
    while (end < text.size() && IsLineBreak(text[end])) ++end;
    return end;
  }
  return SpaceEnd(text, begin);
}

size_t WordEnd(std::string_view text, size_t begin, WordPattern pattern) {
  if (pattern == WordPattern::kGpt2) return Gpt2WordEnd(text, begin);
  return Qwen2WordEnd(text, begin, pattern == WordPattern::kLlama3 ? 3 : 1);
}

void SplitWords(std::string_view text, WordPattern pattern,
                absl::FunctionRef<void(std::string_view)> word) {
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = WordEnd(text, begin, pattern);
    word(text.substr(begin, end - begin));
    begin = end;
  }
}

}  // namespace

void PreTokenizer::ForEachWord(
    std::string_view text,
    absl::FunctionRef<void(std::string_view)> word) const {
  // Digits are split off first, because lookahead must not go past a digit.
  const auto segment = [&](size_t begin, size_t end) {
    if (begin == end) return;
    const std::string_view part = text.substr(begin, end - begin);
    words == WordPattern::kWhole ? word(part) : SplitWords(part, words, word);
  };
  size_t begin = 0;
  if (split_digits) {
    for (size_t at = 0; at < text.size();) {
      const CodePoint c = CodePointAt(text, at);
      if (IsNumeric(c.value)) {
        segment(begin, at);
        word(text.substr(at, c.size));
        begin = at + c.size;
      }
      at += c.size;
    }
  }
  segment(begin, text.size());
}

}  // namespace espalier
