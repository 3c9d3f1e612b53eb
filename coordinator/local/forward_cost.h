#ifndef ESPALIER_COORDINATOR_LOCAL_FORWARD_COST_H_
#define ESPALIER_COORDINATOR_LOCAL_FORWARD_COST_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "common/model/language_model.h"

namespace espalier::local {

// One forward pass over `rows` tree nodes behind `context` cached tokens, with
// the logits of all of them.
struct ForwardCost {
  int64_t rows = 0;
  double ms = 0;           // the fastest of many
  double gb_per_s = 0;     // weights read, once a pass
  double gflop_per_s = 0;  // of the matrix products and the attention
};

// Times a loaded model. Errors are the model's.
absl::StatusOr<ForwardCost> MeasureForward(LanguageModel& model, int64_t rows,
                                           int64_t context);

struct DecodingSpeed {
  double plain_tokens_per_s = 0;    // one row a pass, behind `context` tokens
  double prefill_tokens_per_s = 0;  // of a prompt of `context` tokens
};

// The fastest of several runs. REQUIRES: context >= 1.
absl::StatusOr<DecodingSpeed> MeasureDecoding(LanguageModel& model,
                                              int64_t context);

// GB/s at which `threads` threads together read `bytes` of memory: no pass over
// weights of that size can be faster.
double MeasureReadSpeed(int64_t bytes, int64_t threads);

}  // namespace espalier::local

#endif  // ESPALIER_COORDINATOR_LOCAL_FORWARD_COST_H_
