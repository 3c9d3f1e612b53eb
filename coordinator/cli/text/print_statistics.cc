#include "coordinator/cli/text/print_statistics.h"

#include <ostream>
#include <string>

#include "absl/strings/str_format.h"
#include "coordinator/cli/word_wrap.h"

namespace espalier::cli {
namespace {

void PrintDim(const std::string& text, Context& context) {
  const Screen& screen = context.err_screen;
  if (screen.colors) context.err << "\x1b[" << kDim << "m";
  WordWrap line(context.err, screen.columns);
  line.Write(text);
  line.Finish();
  if (screen.colors) context.err << "\x1b[0m" << std::flush;
}

}  // namespace

void PrintStatistics(const Answer& answer, Context& context) {
  PrintDim(ToLine(answer), context);
  if (answer.summary.finish_reason() == v1::FINISH_REASON_LENGTH) {
    PrintDim(absl::StrFormat("The answer was cut at its limit of %d tokens; "
                             "--max-tokens N sets another.",
                             answer.token_ids.size()),
             context);
  }
}

}  // namespace espalier::cli
