#include "coordinator/cli/app.h"

#include <algorithm>
#include <iomanip>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "common/base/version.h"
#include "common/config/closest_word.h"

namespace espalier::cli {
namespace {

void PrintOverview(absl::Span<const Command> commands, std::ostream& out) {
  out << "Usage: espalier COMMAND [FLAGS]\n\nCommands:\n";
  for (const Command& command : commands) {
    out << "  " << std::left << std::setw(16) << command.name << command.summary
        << "\n";
  }
  out << "  version         which one this is\n\n"
         "`espalier help COMMAND` says more. Exit codes: 0 done, 2 bad usage "
         "or input,\n130 interrupted, 1 the rest.\n";
}

size_t WordsOf(const Command& command) {
  return 1 + std::count(command.name.begin(), command.name.end(), ' ');
}

absl::Status UnknownCommand(absl::Span<const Command> commands,
                            const std::string& name) {
  std::vector<std::string> known;
  for (const Command& command : commands) known.push_back(command.name);
  known.insert(known.end(), {"help", "version"});
  const std::string hint = DidYouMean(name, known);
  return absl::InvalidArgumentError(absl::StrCat(
      "unknown command \"", name, "\"", hint,
      hint.empty() ? "; known: " : " Known: ", absl::StrJoin(known, ", ")));
}

int ExitCode(const absl::Status& status, const Context& context) {
  if (status.ok()) return kExitDone;
  if (context.interrupt.stop_requested()) return kExitInterrupted;
  return absl::IsInvalidArgument(status) || absl::IsNotFound(status)
             ? kExitBadInput
             : kExitFailed;
}

int Finish(const std::string& who, const absl::Status& status,
           Context& context) {
  const int code = ExitCode(status, context);
  if (code != kExitDone) {
    const std::string why = code == kExitInterrupted
                                ? std::string("interrupted")
                                : std::string(status.message());
    context.err << who << ": "
                << absl::StrReplaceAll(why, {{"\n", " "}, {"\r", " "}})
                << std::endl;
  }
  return code;
}

int Help(absl::Span<const Command> commands, Context& context, Args topic) {
  if (topic.empty()) {
    PrintOverview(commands, context.out);
    return kExitDone;
  }
  const Command* command = FindCommand(commands, topic);
  if (command == nullptr) {
    return Finish("espalier help", UnknownCommand(commands, topic[0]), context);
  }
  return Finish("espalier help", command->run(context, {"--help"}), context);
}

}  // namespace

const Command* FindCommand(absl::Span<const Command> commands, Args args) {
  const Command* found = nullptr;
  for (const Command& command : commands) {
    const size_t words = WordsOf(command);
    if (words <= args.size() &&
        command.name == absl::StrJoin(args.first(words), " ") &&
        (found == nullptr || words > WordsOf(*found))) {
      found = &command;
    }
  }
  return found;
}

int RunApp(absl::Span<const Command> commands, Context& context, Args args) {
  if (args.empty()) {
    PrintOverview(commands, context.err);
    return kExitBadInput;
  }
  if (args[0] == "--version" || args[0] == "version") {
    context.out << "espalier " << Version() << "\n";
    return kExitDone;
  }
  if (args[0] == "help" || args[0] == "--help" || args[0] == "-h") {
    return Help(commands, context, args.subspan(1));
  }
  const Command* command = FindCommand(commands, args);
  if (command == nullptr) {
    return Finish("espalier", UnknownCommand(commands, args[0]), context);
  }
  const absl::Status status =
      command->run(context, args.subspan(WordsOf(*command)));
  return Finish("espalier " + command->name, status, context);
}

}  // namespace espalier::cli
