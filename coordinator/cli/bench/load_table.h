#ifndef ESPALIER_COORDINATOR_CLI_BENCH_LOAD_TABLE_H_
#define ESPALIER_COORDINATOR_CLI_BENCH_LOAD_TABLE_H_

#include <string>

#include "absl/types/span.h"
#include "coordinator/cli/bench/load_row.h"

namespace espalier::cli {

// Human-readable table: a column for each mode, a line for each quantity, no
// line longer than 80 characters. Modes that do not fit side by side get
// another table below. Ends with a newline.
std::string LoadTable(absl::Span<const LoadRow> rows);

}  // namespace espalier::cli

#endif  // ESPALIER_COORDINATOR_CLI_BENCH_LOAD_TABLE_H_
