#ifndef ESPALIER_COORDINATOR_CLI_LOAD_ROW_H_
#define ESPALIER_COORDINATOR_CLI_LOAD_ROW_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace espalier::cli {

// The server had no room, and said so.
bool IsRefusal(const absl::Status& status);

// What a client saw of one request, from the moment it was due: an open loop
// charges a server for every delay, its own and the client's.
struct LoadSample {
  absl::Status status;
  absl::Duration first_token;
  absl::Duration total;
  std::vector<absl::Duration> gaps;  // between messages that bring text
  int64_t tokens = 0;
  int64_t rounds = 0;
};

// Good enough for a user.
struct LoadTarget {
  absl::Duration first_token;
  absl::Duration per_token;  // behind the first one
};

// In milliseconds.
struct Percentiles {
  double p50 = 0;
  double p95 = 0;
  double p99 = 0;
};
// Nearest rank; zeros without samples.
Percentiles PercentilesOf(std::vector<absl::Duration> samples);

// One line of a load test: a mode's requests.
struct LoadRow {
  std::string mode;
  double rate = 0;  // requests a second that arrived
  int64_t requests = 0;
  int64_t refused = 0;  // RESOURCE_EXHAUSTED or UNAVAILABLE
  int64_t failed = 0;   // any other error
  double tokens_per_s = 0;
  double goodput = 0;  // requests a second that met the target
  double tau = 0;      // emitted tokens per verification
  Percentiles first_token_ms;
  Percentiles gap_ms;        // between messages
  Percentiles per_token_ms;  // of a request, behind its first message
  Percentiles total_ms;
  Percentiles refused_ms;  // until it was refused
};
// `span`: from the first arrival to the last end.
LoadRow Summarize(const std::vector<LoadSample>& samples, absl::Duration span,
                  const LoadTarget& target);

// As one JSON object; as a line of the table under LoadTableHeader().
std::string ToJson(const LoadRow& row);
std::string ToTableLine(const LoadRow& row);
std::string LoadTableHeader();

}  // namespace espalier::cli

#endif  // ESPALIER_COORDINATOR_CLI_LOAD_ROW_H_
