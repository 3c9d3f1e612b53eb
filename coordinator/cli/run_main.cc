#include "coordinator/cli/run_main.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "coordinator/cli/app.h"
#include "coordinator/cli/interrupt_watcher.h"
#include "coordinator/cli/line_editor.h"

namespace espalier::cli {
namespace {

constexpr int kUsualColumns = 80;

Screen ScreenOf(int fd) {
  if (isatty(fd) != 1) return {};
  winsize size = {};
  const bool known = ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  const char* no_color = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  return {.columns = known ? size.ws_col : kUsualColumns,
          .colors = (no_color == nullptr || *no_color == '\0') &&
                    terminal != nullptr &&
                    std::string_view(terminal) != "dumb"};
}

// The folder of the running binary.
std::filesystem::path ExecutableDir() {
  std::error_code error;  // no /proc: an empty path, i.e. the current folder
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
}

}  // namespace

int RunMain(int argc, char** argv, absl::Span<const Command> commands) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  const Command* command = FindCommand(commands, args);
  std::optional<InterruptWatcher> watcher;
  if (command != nullptr && command->interruptible) watcher.emplace();

  auto environment = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
  };
  Context context{
      .in = std::cin,
      .out = std::cout,
      .err = std::cerr,
      .places = Places::From(environment, getuid(), ExecutableDir()),
      .interrupt = watcher ? watcher->token() : std::stop_token(),
      .err_is_terminal = isatty(STDERR_FILENO) == 1,
      .out_screen = ScreenOf(STDOUT_FILENO),
      .err_screen = ScreenOf(STDERR_FILENO),
  };
  if (watcher) context.next_interrupt = [&watcher] { return watcher->Renew(); };
  std::optional<LineEditor> editor;
  if (isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1) {
    context.read_line = [&editor](const std::string& prompt,
                                  std::string& line) {
      if (!editor) editor.emplace();
      return editor->Read(prompt, line);
    };
  }
  const int code = RunApp(commands, context, args);
  std::cout.flush();
  if (code == kExitDone && !std::cout) {
    std::cerr << "espalier: cannot write to standard output\n";
    return kExitFailed;
  }
  return code;
}

}  // namespace espalier::cli
