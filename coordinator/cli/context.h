#ifndef ESPALIER_COORDINATOR_CLI_CONTEXT_H_
#define ESPALIER_COORDINATOR_CLI_CONTEXT_H_

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <stop_token>
#include <string>

#include "coordinator/cli/line_editor.h"

namespace espalier::cli {

// Default addresses and paths of commands.
struct Places {
  std::string address;          // of the quick start's cluster
  std::string admin_address;    // its operators' address
  std::filesystem::path model;  // the default model's folder
  std::filesystem::path executable_dir;

  // Looks an environment variable up; empty: unset.
  using Environment = std::function<std::string(const char* name)>;
  static Places From(const Environment& environment, unsigned user_id,
                     std::filesystem::path executable_dir);
};

// For Screen::Paint.
inline constexpr char kDim[] = "2";
inline constexpr char kGreen[] = "32";
inline constexpr char kRed[] = "31";

// Describes what an output stream can show. Default: a file or a pipe.
struct Screen {
  int columns = 0;      // of the terminal; 0: no terminal, text is not wrapped
  bool colors = false;  // of a terminal, unless NO_COLOR is set

  // `text` in a color; unchanged if there are no colors.
  std::string Paint(const char* color, const std::string& text) const;
};

// Everything of its process that a command may use. Made by RunMain or a test.
struct Context {
  std::istream& in;
  std::ostream& out;
  std::ostream& err;
  Places places;
  // Ctrl-C. Requested from another thread, while the command runs.
  std::stop_token interrupt;
  bool err_is_terminal = false;
  Screen out_screen = {};
  Screen err_screen = {};
  // Arms a new stop for the next Ctrl-C and returns its token, whether
  // `interrupt` was requested or not. Null: only `interrupt` exists.
  std::function<std::stop_token()> next_interrupt = nullptr;
  // Reads a line that the user types, as LineEditor::Read. Null: `in` or `out`
  // is not a terminal.
  std::function<LineEnd(const std::string& prompt, std::string& line)>
      read_line = nullptr;
};

}  // namespace espalier::cli

#endif  // ESPALIER_COORDINATOR_CLI_CONTEXT_H_
