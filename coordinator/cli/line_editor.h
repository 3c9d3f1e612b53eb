#ifndef ESPALIER_COORDINATOR_CLI_LINE_EDITOR_H_
#define ESPALIER_COORDINATOR_CLI_LINE_EDITOR_H_

#include <memory>
#include <string>

namespace espalier::cli {

enum class LineEnd {
  kEnter,
  kInterrupt,   // Ctrl-C: the line is discarded
  kEndOfInput,  // Ctrl-D in an empty line, or the terminal is gone
};

// Lines typed at a terminal, with editing, and with the earlier lines under the
// arrow keys (libedit; `~/.editrc` applies). Standard input and output have to
// be terminals. Between reads the terminal is as it was. For one thread.
class LineEditor {
 public:
  LineEditor();
  ~LineEditor();

  // Shows `prompt`, which may have colors but not at its end, and reads a line
  // without its end into `line`. `line` is unspecified unless kEnter is
  // returned.
  LineEnd Read(const std::string& prompt, std::string& line);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace espalier::cli

#endif  // ESPALIER_COORDINATOR_CLI_LINE_EDITOR_H_
