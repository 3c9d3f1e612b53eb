#ifndef ESPALIER_COORDINATOR_LOCAL_FORWARD_COST_H_
#define ESPALIER_COORDINATOR_LOCAL_FORWARD_COST_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/model/language_model.h"

namespace espalier::local {

// Cost of one forward pass over `rows` tree nodes after `context` cached
// tokens, with the logits of all of them.
struct ForwardCost {
  int64_t rows = 0;
  double ms = 0;           // the fastest of many
  double gb_per_s = 0;     // weights and cached K/V, read once per pass
  double gflop_per_s = 0;  // of the matrix products and the attention
  // Ratio of its time to that of others in the same turn, median over all
  // turns.
  double times_floor = 0;
  double times_first = 0;
};

struct ForwardCosts {
  std::vector<ForwardCost> passes = {};  // by entry of `rows`
  // Time to read as much memory (MemoryReader): no pass can be faster.
  double floor_ms = 0;
  double floor_gb_per_s = 0;
};

// Times a loaded model. Passes and memory reads alternate, so that all of them
// see the machine in the same state. Errors are the model's. REQUIRES: rows is
// not empty.
absl::StatusOr<ForwardCosts> MeasureForward(LanguageModel& model,
                                            absl::Span<const int64_t> rows,
                                            int64_t context);

// Median milliseconds of passes as a server runs them, by entry of `rows`: the
// rows are a tree, of which each row draws a token, and nothing comes between
// passes but a round's gap. Where there is a tree, that is as long as drafting
// it: as many bytes are read as a draft head has. Errors are the model's.
absl::StatusOr<std::vector<double>> MeasureAsServed(
    LanguageModel& model, absl::Span<const int64_t> rows, int64_t context);

struct DecodingSpeed {
  double plain_tokens_per_s = 0;    // one row per pass, after `context` tokens
  double prefill_tokens_per_s = 0;  // of a prompt of `context` tokens
};

// The fastest of several runs. REQUIRES: context >= 1.
absl::StatusOr<DecodingSpeed> MeasureDecoding(LanguageModel& model,
                                              int64_t context);

}  // namespace espalier::local

#endif  // ESPALIER_COORDINATOR_LOCAL_FORWARD_COST_H_
