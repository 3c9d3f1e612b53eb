#include "coordinator/cli/word_wrap.h"

#include <algorithm>
#include <ostream>

namespace espalier::cli {
namespace {

int ColumnsOf(absl::string_view text) {
  return static_cast<int>(std::count_if(
      text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

}  // namespace

WordWrap::WordWrap(std::ostream& out, int columns, int indent)
    : out_(out), columns_(columns), indent_(indent), column_(indent) {}

void WordWrap::Write(absl::string_view text) {
  for (char c : text) {
    if (c == '\n') {
      PutWord();
      out_ << spaces_;
      spaces_.clear();
      BreakLine();
    } else if (c == ' ') {
      PutWord();
      spaces_ += c;
    } else {
      word_ += c;
    }
  }
  // No wrapping, or a language without spaces.
  if (columns_ == 0 || ColumnsOf(word_) > columns_ / 2) PutWord();
  if (columns_ == 0 && !spaces_.empty()) {
    out_ << spaces_;
    spaces_.clear();
    line_is_empty_ = false;
  }
  out_ << std::flush;
}

void WordWrap::Finish() {
  PutWord();
  spaces_.clear();
  if (!line_is_empty_) out_ << '\n';
  line_is_empty_ = true;
  column_ = indent_;
  out_ << std::flush;
}

void WordWrap::PutWord() {
  if (word_.empty()) return;
  const int width = ColumnsOf(word_);
  const int needed = ColumnsOf(spaces_) + width;
  if (columns_ > 0 && !line_is_empty_ && !spaces_.empty() &&
      column_ + needed > columns_) {
    spaces_.clear();
    BreakLine();
  }
  column_ += ColumnsOf(spaces_) + width;
  line_is_empty_ = false;
  out_ << spaces_ << word_;
  spaces_.clear();
  word_.clear();
}

void WordWrap::BreakLine() {
  out_ << '\n';
  if (columns_ > 0) out_ << std::string(static_cast<size_t>(indent_), ' ');
  column_ = indent_;
  line_is_empty_ = true;
}

}  // namespace espalier::cli
