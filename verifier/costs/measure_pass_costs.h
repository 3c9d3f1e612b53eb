#ifndef ESPALIER_VERIFIER_COSTS_MEASURE_PASS_COSTS_H_
#define ESPALIER_VERIFIER_COSTS_MEASURE_PASS_COSTS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/executor.h"
#include "common/model/language_model.h"
#include "common/speculation/pass_cost.h"
#include "common/speculation/types.h"
#include "verifier/costs/tree_routing.h"

namespace espalier::verifier {

// Returns tokens for the rows of a pass that is timed, of which `unlike`
// differ, as far as the vocabulary has so many: rows of a mixture that are
// alike go through the same experts, so the number decides what the pass reads.
std::vector<TokenId> TokensToTime(int64_t rows, int64_t unlike,
                                  int64_t vocab_size);

struct MeasureOptions {
  int64_t max_rows = 0;  // of the largest tree, root included
  // The longest time of the whole measurement; the passes over one row may
  // exceed it.
  absl::Duration time_budget = absl::Milliseconds(700);
};

struct MeasuredCosts {
  PassCosts costs;
  // Is true if most row counts were not timed twice with the same result: the
  // machine did other things meanwhile, or there was no time.
  bool is_doubtful = false;
  // Says what the passes read of a mixture. Their rows had nothing in common,
  // so a mixture's costs are upper bounds. Empty: there are no experts.
  std::vector<ExpertsRead> unlike = {};
};

// Times passes over one row and at the model's row_edges, with one row more at
// each (1, 2, 4, 6, 7, ... rows if it names none), up to what options and model
// allow. Each time is the best of 16 passes or more, or of as many as the
// budget has time for. The passes run on a scratch sequence with a prefix of up
// to 256 tokens, which is released afterwards. Row counts for which there is no
// time or no K/V room are extrapolated from the others. Call it on the model's
// thread; `clock` times the passes. Returns the errors of the first pass over
// one row.
absl::StatusOr<MeasuredCosts> MeasurePassCosts(LanguageModel& model,
                                               const Executor& clock,
                                               const MeasureOptions& options);

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_COSTS_MEASURE_PASS_COSTS_H_
