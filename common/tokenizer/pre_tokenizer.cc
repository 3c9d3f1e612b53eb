#include "common/tokenizer/pre_tokenizer.h"

#include <cstddef>
#include <utility>

#include "absl/types/span.h"
#include "common/base/check.h"
#include "common/base/utf8.h"
#include "common/tokenizer/normalizer.h"
#include "common/tokenizer/unicode_classes.h"

namespace espalier {
namespace {

using Word = absl::FunctionRef<void(std::string_view)>;

// Every digit, and what is between them.
void ForEachDigitOrRest(std::string_view text, Word piece) {
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = CodePointAt(text, at);
    if (IsNumeric(c.value)) {
      if (begin < at) piece(text.substr(begin, at - begin));
      piece(text.substr(at, c.size));
      begin = at + c.size;
    }
    at += c.size;
  }
  if (begin < text.size()) piece(text.substr(begin));
}

// The splits from the `first` on; `digits`: those of digits are still to come.
void Split(const PreTokenizer& steps, size_t first, bool digits,
           std::string_view text, Word word) {
  if (digits && steps.split_digits == first) {
    ForEachDigitOrRest(text, [&](std::string_view piece) {
      Split(steps, first, /*digits=*/false, piece, word);
    });
  } else if (first == steps.splits.size()) {
    word(text);
  } else {
    steps.splits[first].ForEachPiece(text, [&](std::string_view piece) {
      Split(steps, first + 1, digits, piece, word);
    });
  }
}

// REQUIRES: `text` is not empty.
void SplitMetaspace(const Metaspace& metaspace, std::string_view text,
                    bool at_start, Word word) {
  const std::string& mark = metaspace.replacement;
  std::string marked = ReplaceAll(text, " ", mark);
  const bool prepends =
      metaspace.prepend == Metaspace::Prepend::kAlways ||
      (metaspace.prepend == Metaspace::Prepend::kFirst && at_start);
  if (prepends && marked.compare(0, mark.size(), mark) != 0) {
    marked.insert(0, mark);
  }
  if (!metaspace.split) {
    word(marked);
    return;
  }
  size_t begin = 0;
  for (size_t at = marked.find(mark, 1); at != std::string::npos;
       at = marked.find(mark, at + 1)) {
    word(std::string_view(marked).substr(begin, at - begin));
    begin = at;
  }
  word(std::string_view(marked).substr(begin));
}

}  // namespace

void PreTokenizer::ForEachWord(std::string_view text, bool at_start,
                               Word word) const {
  if (text.empty()) return;
  if (metaspace.has_value()) {
    SplitMetaspace(*metaspace, text, at_start, word);
    return;
  }
  Split(*this, 0, split_digits.has_value(), text, word);
}

SplitPattern KnownPattern(std::string_view pattern) {
  absl::StatusOr<SplitPattern> split = SplitPattern::Parse(pattern);
  ESPALIER_CHECK(split.ok());
  return *std::move(split);
}

PreTokenizer SplitBy(std::string_view pattern, bool split_digits) {
  PreTokenizer result;
  if (split_digits) result.split_digits = 0;
  result.splits.push_back(KnownPattern(pattern));
  return result;
}

}  // namespace espalier
