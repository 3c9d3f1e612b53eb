#include "verifier/measure_pass_costs.h"

#include <algorithm>
#include <vector>

#include "common/base/status_macros.h"

namespace espalier::verifier {
namespace {

constexpr int kSweeps = 3;
// Edges of register tiles, and what lies between them.
constexpr int64_t kRowCounts[] = {1,  2,  4,  8,  12,  16,  24,
                                  32, 48, 64, 96, 128, 192, 256};

// A sequence of the model's that is gone at the end of the scope.
class ScratchSequence {
 public:
  explicit ScratchSequence(LanguageModel& model)
      : model_(model), cache_(model.NewSequence()) {}
  ~ScratchSequence() { model_.Release(cache_); }
  ScratchSequence(const ScratchSequence&) = delete;
  ScratchSequence& operator=(const ScratchSequence&) = delete;

  // One pass over a root and its children, nothing kept.
  absl::StatusOr<absl::Duration> TimePass(int64_t rows, const Executor& clock) {
    const std::vector<TokenId> tokens(rows, 0);
    std::vector<int32_t> parents(rows, 0);
    parents[0] = kPrefixParent;
    const SequenceRows tree = {.cache = cache_,
                               .tokens = tokens,
                               .parents = parents,
                               .num_logit_rows = rows,
                               .use = DrawRequest{}};  // the usual one
    const absl::Time begin = clock.Now();
    RETURN_IF_ERROR(model_.Forward({&tree, 1}).status());
    return clock.Now() - begin;
  }

 private:
  LanguageModel& model_;
  const CacheId cache_;
};

std::vector<int64_t> RowCounts(int64_t max_rows, const ModelInfo& model) {
  const int64_t limit = std::min({max_rows, model.max_rows, model.max_context});
  std::vector<int64_t> counts;
  for (int64_t rows : kRowCounts) {
    if (rows == 1 || rows <= limit) counts.push_back(rows);
  }
  return counts;
}

// What the next pass may take: what it took, or at most its share of the rows.
absl::Duration Expected(const PassCosts& measured, size_t index, int64_t rows) {
  if (index < measured.size()) return measured[index].time;
  const PassCost& last = measured.back();
  return last.time * rows / last.rows;
}

void RaiseFallingTimes(PassCosts& costs) {
  for (size_t i = 1; i < costs.size(); ++i) {
    costs[i].time = std::max(costs[i].time, costs[i - 1].time);
  }
}

}  // namespace

absl::StatusOr<PassCosts> MeasurePassCosts(LanguageModel& model,
                                           const Executor& clock,
                                           const MeasureOptions& options) {
  const absl::Time end = clock.Now() + options.time_budget;
  const std::vector<int64_t> counts = RowCounts(options.max_rows, model.info());
  ScratchSequence scratch(model);
  // The first pass touches memory that later ones find warm.
  RETURN_IF_ERROR(scratch.TimePass(counts[0], clock).status());
  ASSIGN_OR_RETURN(const absl::Duration first,
                   scratch.TimePass(counts[0], clock));
  PassCosts measured = {{counts[0], first}};
  // Sweep after sweep, so that a disturbance does not hit all of one count.
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    for (size_t i = 0; i < counts.size(); ++i) {
      if (clock.Now() + Expected(measured, i, counts[i]) > end) break;
      const auto time = scratch.TimePass(counts[i], clock);
      if (!time.ok()) break;
      if (i == measured.size()) measured.push_back({counts[i], *time});
      measured[i].time = std::min(measured[i].time, *time);
    }
  }
  RaiseFallingTimes(measured);
  PassCosts costs;
  for (int64_t rows : counts) {
    costs.push_back({rows, PassTime(measured, rows)});
  }
  return costs;
}

}  // namespace espalier::verifier
