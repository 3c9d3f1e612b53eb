#include "coordinator/cli/line_editor.h"

#include <histedit.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cwchar>

#include "absl/strings/strip.h"

namespace espalier::cli {
namespace {

constexpr int kMaxLines = 1000;  // that are remembered
constexpr wchar_t kCtrlC = 3;

// The prompt's escape sequences, between two of these, take no columns.
constexpr char kEscape = '\1';

std::string MarkEscapes(const std::string& prompt) {
  std::string marked;
  bool in_escape = false;
  for (const char c : prompt) {
    if (c == '\x1b') {
      in_escape = true;
      marked += kEscape;
    }
    marked += c;
    if (in_escape && c == 'm') {
      in_escape = false;
      marked += kEscape;
    }
  }
  return marked;
}

// Reads a character; 0: end of input, -1: an error.
int ReadCharacter(wchar_t* character) {
  std::mbstate_t state = {};
  while (true) {
    char byte;
    const ssize_t size = read(STDIN_FILENO, &byte, 1);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return static_cast<int>(size);
    const size_t length = std::mbrtowc(character, &byte, 1, &state);
    if (length == static_cast<size_t>(-2)) continue;  // more bytes follow
    if (length != static_cast<size_t>(-1)) return 1;
    state = {};  // not a character: left out
  }
}

}  // namespace

struct LineEditor::Impl {
  EditLine* editor;
  History* history;
  std::string prompt;
  bool interrupted = false;

  static Impl& Of(EditLine* editor) {
    void* impl = nullptr;
    el_get(editor, EL_CLIENTDATA, &impl);
    return *static_cast<Impl*>(impl);
  }

  static char* Prompt(EditLine* editor) { return Of(editor).prompt.data(); }

  // The terminal sends no signal for Ctrl-C while a line is edited.
  static int NextCharacter(EditLine* editor, wchar_t* character) {
    const int count = ReadCharacter(character);
    if (count != 1 || *character != kCtrlC) return count;
    Of(editor).interrupted = true;
    return 0;  // ends el_gets
  }
};

LineEditor::LineEditor() : impl_(std::make_unique<Impl>()) {
  std::setlocale(LC_CTYPE, "C.UTF-8");
  HistEvent event;
  impl_->history = history_init();
  history(impl_->history, &event, H_SETSIZE, kMaxLines);
  history(impl_->history, &event, H_SETUNIQUE, 1);
  EditLine* editor = el_init("espalier", stdin, stdout, stderr);
  impl_->editor = editor;
  el_set(editor, EL_CLIENTDATA, impl_.get());
  el_set(editor, EL_EDITOR, "emacs");
  el_set(editor, EL_HIST, history, impl_->history);
  el_set(editor, EL_PROMPT_ESC, &Impl::Prompt, kEscape);
  el_set(editor, EL_GETCFN, &Impl::NextCharacter);
  el_set(editor, EL_SETTY, "-d", "-isig", nullptr);
  el_source(editor, nullptr);
}

LineEditor::~LineEditor() {
  el_end(impl_->editor);
  history_end(impl_->history);
}

LineEnd LineEditor::Read(const std::string& prompt, std::string& line) {
  impl_->prompt = MarkEscapes(prompt);
  impl_->interrupted = false;
  // el_gets does this after the prompt is shown: a Ctrl-D in between is lost.
  el_set(impl_->editor, EL_PREP_TERM, 1);
  int length = 0;
  const char* typed = el_gets(impl_->editor, &length);
  if (impl_->interrupted) {
    el_reset(impl_->editor);
    return LineEnd::kInterrupt;
  }
  if (typed == nullptr || length <= 0) return LineEnd::kEndOfInput;
  line = std::string(absl::StripSuffix(typed, "\n"));
  HistEvent event;
  if (!line.empty()) history(impl_->history, &event, H_ENTER, line.c_str());
  return LineEnd::kEnter;
}

}  // namespace espalier::cli
