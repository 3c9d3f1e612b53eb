#ifndef ESPALIER_LAB_LAB_COMMAND_H_
#define ESPALIER_LAB_LAB_COMMAND_H_

#include "coordinator/cli/command.h"

namespace espalier::lab {

// `espalier lab`: the algorithms alone, no model. Runs the experiment that its
// first argument names.
cli::Command LabCommand();

}  // namespace espalier::lab

#endif  // ESPALIER_LAB_LAB_COMMAND_H_
