// The experiments of `espalier lab`, one file each.
#ifndef ESPALIER_COORDINATOR_LOCAL_LAB_EXPERIMENTS_H_
#define ESPALIER_COORDINATOR_LOCAL_LAB_EXPERIMENTS_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "common/json/json_value.h"
#include "coordinator/cli/command.h"

namespace espalier::local {

// An experiment prints this, in the order in which it is written.
using Json = nlohmann::ordered_json;

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
  std::function<absl::StatusOr<Json>(const JsonValue& input)> run;
};
cli::Command AsCommand(JsonExperiment experiment);

}  // namespace espalier::local

#endif  // ESPALIER_COORDINATOR_LOCAL_LAB_EXPERIMENTS_H_
