#ifndef ESPALIER_COORDINATOR_CLI_WORD_WRAP_H_
#define ESPALIER_COORDINATOR_CLI_WORD_WRAP_H_

#include <iosfwd>
#include <string>

#include "absl/strings/string_view.h"

namespace espalier::cli {

// Wraps UTF-8 text that comes in pieces at word boundaries, to the width of a
// terminal. A word is held back until it is known to be complete. Each
// character counts as one column.
class WordWrap {
 public:
  // `columns` 0: passes the text on unchanged. New lines are indented by
  // `indent` columns; the first line starts at the cursor, which is at `indent`
  // too.
  WordWrap(std::ostream& out, int columns, int indent = 0);

  void Write(absl::string_view text);
  // Prints the held-back text, and ends the line if one is begun.
  void Finish();

 private:
  void PutWord();
  void BreakLine();

  std::ostream& out_;
  const int columns_;
  const int indent_;
  int column_;
  bool line_is_empty_ = true;
  std::string spaces_;  // before word_; not printed yet
  std::string word_;    // may be incomplete
};

}  // namespace espalier::cli

#endif  // ESPALIER_COORDINATOR_CLI_WORD_WRAP_H_
