#ifndef ESPALIER_COORDINATOR_CLI_BENCH_LOAD_ROW_H_
#define ESPALIER_COORDINATOR_CLI_BENCH_LOAD_ROW_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace espalier::cli {

// Returns true if the server refused the request for lack of room.
bool IsRefusal(const absl::Status& status);

// A client's measurements of one request, from the time when it was due: an
// open loop attributes every delay to the server, also the client's own.
struct LoadSample {
  absl::Status status;
  absl::Duration first_token;
  absl::Duration total;
  std::vector<absl::Duration> gaps;  // between messages with text
  int64_t tokens = 0;
  int64_t rounds = 0;
};

// Times of a good answer.
struct LoadTarget {
  absl::Duration first_token;
  absl::Duration per_token;  // after the first one
};

// In milliseconds.
struct Percentiles {
  double p50 = 0;
  double p95 = 0;
  double p99 = 0;
};
// Nearest rank; zeros without samples.
Percentiles PercentilesOf(std::vector<absl::Duration> samples);

// Results of one mode of a load test.
struct LoadRow {
  std::string mode = {};
  double rate = 0;          // arrivals per second; 0: closed loop
  int64_t concurrency = 0;  // requests in flight; 0: open loop
  int64_t requests = 0;
  int64_t refused = 0;  // RESOURCE_EXHAUSTED or UNAVAILABLE
  int64_t failed = 0;   // any other error
  double tokens_per_s = 0;
  int64_t good = 0;    // requests that met the target
  double goodput = 0;  // good requests per second
  double tau = 0;      // emitted tokens per verification
  Percentiles first_token_ms = {};
  Percentiles gap_ms = {};        // between messages
  Percentiles per_token_ms = {};  // of a request, after its first message
  Percentiles total_ms = {};
  Percentiles refused_ms = {};  // until the refusal
};
// `span`: from the first arrival to the last end.
LoadRow Summarize(const std::vector<LoadSample>& samples, absl::Duration span,
                  const LoadTarget& target);

// As one JSON object.
std::string ToJson(const LoadRow& row);

}  // namespace espalier::cli

#endif  // ESPALIER_COORDINATOR_CLI_BENCH_LOAD_ROW_H_
