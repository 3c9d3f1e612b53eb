#ifndef ESPALIER_COORDINATOR_CLI_TEXT_PRINT_STATISTICS_H_
#define ESPALIER_COORDINATOR_CLI_TEXT_PRINT_STATISTICS_H_

#include "coordinator/cli/answer.h"
#include "coordinator/cli/context.h"

namespace espalier::cli {

// Prints the statistics of an answer to standard error: ToLine, and a note if
// the answer was cut.
void PrintStatistics(const Answer& answer, Context& context);

}  // namespace espalier::cli

#endif  // ESPALIER_COORDINATOR_CLI_TEXT_PRINT_STATISTICS_H_
