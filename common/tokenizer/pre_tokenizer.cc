#include "common/tokenizer/pre_tokenizer.h"

#include <array>
#include <cstddef>

#include "common/tokenizer/unicode_classes.h"
#include "common/tokenizer/utf8.h"

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
  size_t last = 0;  // where its last character begins
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

// End of the word at `begin` by GPT-2's pattern, by hand:
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
size_t WordEnd(std::string_view text, size_t begin) {
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
  // Before a word, the last space is left to it, save that it is all we have.
  return run.last > begin ? run.last : run.end;
}

void SplitWords(std::string_view text,
                absl::FunctionRef<void(std::string_view)> word) {
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = WordEnd(text, begin);
    word(text.substr(begin, end - begin));
    begin = end;
  }
}

}  // namespace

void PreTokenizer::ForEachWord(
    std::string_view text,
    absl::FunctionRef<void(std::string_view)> word) const {
  // What looks ahead must not look past a digit, so the digits go first.
  const auto segment = [&](size_t begin, size_t end) {
    if (begin == end) return;
    const std::string_view part = text.substr(begin, end - begin);
    split_words ? SplitWords(part, word) : word(part);
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
