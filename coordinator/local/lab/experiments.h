// The experiments of `espalier lab`, one file each.
#ifndef ESPALIER_COORDINATOR_LOCAL_LAB_EXPERIMENTS_H_
#define ESPALIER_COORDINATOR_LOCAL_LAB_EXPERIMENTS_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/cli/command.h"
#include "coordinator/local/lab/json_fields.h"

namespace espalier::local {

cli::Command DdtreeExperiment();
cli::Command LawExperiment();
cli::Command MergeExperiment();
cli::Command RouteExperiment();
cli::Command ToyExperiment();

// An experiment that reads one JSON object from standard input and writes one.
struct JsonExperiment {
  std::string name;
  std::string summary;  // one line of the list
  std::string usage;    // printed by --help
  std::function<absl::StatusOr<Json>(const JsonField& input)> run;
};
cli::Command AsCommand(JsonExperiment experiment);

}  // namespace espalier::local

#endif  // ESPALIER_COORDINATOR_LOCAL_LAB_EXPERIMENTS_H_
