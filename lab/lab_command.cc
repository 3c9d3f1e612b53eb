#include "lab/lab_command.h"

#include <iomanip>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/config/flag_set.h"
#include "common/json/ordered_json.h"
#include "common/json/parse_json.h"
#include "coordinator/cli/app.h"
#include "coordinator/cli/input_file.h"
#include "lab/experiments.h"

namespace espalier::lab {
namespace {

using cli::Args;
using cli::Command;
using cli::Context;

// The list of experiments.
std::vector<Command> Experiments() {
  return {DdtreeExperiment(), LawExperiment(), MergeExperiment(),
          RouteExperiment(), ToyExperiment()};
}

void PrintOverview(const std::vector<Command>& experiments, std::ostream& out) {
  out << "Usage: espalier lab EXPERIMENT [FLAGS]\n\n"
         "The algorithms alone, no model. Experiments:\n";
  for (const Command& experiment : experiments) {
    out << "  " << std::left << std::setw(16) << experiment.name
        << experiment.summary << "\n";
  }
  out << "\n`espalier lab EXPERIMENT --help` says more.\n";
}

absl::Status RunLab(Context& context, Args args) {
  const std::vector<Command> experiments = Experiments();
  if (!args.empty() && args[0] == "--help") {
    PrintOverview(experiments, context.out);
    return absl::OkStatus();
  }
  const Command* experiment = cli::FindCommand(experiments, args);
  if (experiment != nullptr) return experiment->run(context, args.subspan(1));
  auto append = [](std::string* out, const Command& command) {
    absl::StrAppend(out, command.name);
  };
  return absl::InvalidArgumentError(absl::StrCat(
      "name an experiment: ", absl::StrJoin(experiments, ", ", append)));
}

absl::Status RunJson(const JsonExperiment& experiment, Context& context,
                     Args args) {
  const FlagSet flags(experiment.usage);
  ASSIGN_OR_RETURN(const bool parsed, flags.Parse(args, context.out));
  if (!parsed) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string text, cli::ReadInput("-", context.in));
  ASSIGN_OR_RETURN(const nlohmann::json input,
                   ParseJsonObject(text, "the input"));
  ASSIGN_OR_RETURN(const Json output, experiment.run(JsonValue(input)));
  context.out << ToText(output) << "\n";
  return absl::OkStatus();
}

}  // namespace

Command AsCommand(JsonExperiment experiment) {
  return {.name = experiment.name,
          .summary = experiment.summary,
          .run = [experiment](Context& context, Args args) {
            return RunJson(experiment, context, args);
          }};
}

Command LabCommand() {
  return {.name = "lab",
          .summary = "the algorithms alone, without a model",
          .run = RunLab};
}

}  // namespace espalier::lab
