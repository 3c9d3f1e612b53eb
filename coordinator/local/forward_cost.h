#ifndef ESPALIER_COORDINATOR_LOCAL_FORWARD_COST_H_
#define ESPALIER_COORDINATOR_LOCAL_FORWARD_COST_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/model/language_model.h"

namespace espalier::local {

// One forward pass over `rows` tree nodes behind `context` cached tokens, with
// the logits of all of them.
struct ForwardCost {
  int64_t rows = 0;
  double ms = 0;           // the fastest of many
  double gb_per_s = 0;     // weights and cached K/V read, once a pass
  double gflop_per_s = 0;  // of the matrix products and the attention
  // Its time against that of others in the same turn, the median of all turns.
  double times_floor = 0;
  double times_first = 0;
};

struct ForwardCosts {
  std::vector<ForwardCost> passes;  // by entry of `rows`
  // To read so much memory with the model's threads: no pass can be faster.
  double floor_ms = 0;
  double floor_gb_per_s = 0;
};

// Times a loaded model; passes and the reading of memory take turns, so that
// all of them see the machine as it is. Errors are the model's.
// REQUIRES: rows is not empty.
absl::StatusOr<ForwardCosts> MeasureForward(LanguageModel& model,
                                            absl::Span<const int64_t> rows,
                                            int64_t context);

struct DecodingSpeed {
  double plain_tokens_per_s = 0;    // one row a pass, behind `context` tokens
  double prefill_tokens_per_s = 0;  // of a prompt of `context` tokens
};

// The fastest of several runs. REQUIRES: context >= 1.
absl::StatusOr<DecodingSpeed> MeasureDecoding(LanguageModel& model,
                                              int64_t context);

}  // namespace espalier::local

#endif  // ESPALIER_COORDINATOR_LOCAL_FORWARD_COST_H_
