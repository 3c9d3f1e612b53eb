#ifndef ESPALIER_COORDINATOR_LOCAL_LAB_LAB_COMMAND_H_
#define ESPALIER_COORDINATOR_LOCAL_LAB_LAB_COMMAND_H_

#include "coordinator/cli/command.h"

namespace espalier::local {

// `espalier lab`: the algorithms alone, no model. Runs the experiment that its
// first argument names.
cli::Command LabCommand();

}  // namespace espalier::local

#endif  // ESPALIER_COORDINATOR_LOCAL_LAB_LAB_COMMAND_H_
