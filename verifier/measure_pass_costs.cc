#include "verifier/measure_pass_costs.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"

namespace espalier::verifier {
namespace {

// Edges of the backends' register tiles (6, 12 and 16 rows), each with the row
// behind it: the first row of another tile costs as much as many. Few, so that
// each is timed well: a point that is off makes rows look free that are not.
constexpr int64_t kRowCounts[] = {1,  2,  4,  6,  7,  12,  13,
                                  16, 17, 24, 32, 64, 128, 256};
// Rows attend to a text: as long as this part of the budget has time for.
constexpr int64_t kPrefix = 256;
constexpr double kPrefixShare = 0.25;

// A sequence of the model's that is gone at the end of the scope.
class ScratchSequence {
 public:
  explicit ScratchSequence(LanguageModel& model)
      : model_(model), cache_(model.NewSequence()) {}
  ~ScratchSequence() { model_.Release(cache_); }
  ScratchSequence(const ScratchSequence&) = delete;
  ScratchSequence& operator=(const ScratchSequence&) = delete;

  // Caches almost `length` tokens, or fewer: what fails, or would end too late
  // at twice the time of half the rows, is left out. One row takes `time`.
  void AddPrefix(int64_t length, absl::Duration time, const Executor& clock,
                 absl::Time end) {
    for (int64_t rows = 1; model_.Length(cache_) + rows <= length; rows *= 2) {
      const absl::Time begin = clock.Now();
      const std::vector<TokenId> chunk(rows, 0);
      if (begin + 2 * time > end) return;
      if (!Prefill(model_, cache_, chunk, rows).ok()) return;
      time = clock.Now() - begin;
    }
  }

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

// Leaves room for the rows, in a small pool too.
int64_t PrefixLength(const LanguageModel& model, int64_t max_rows) {
  constexpr int64_t kPoolParts = 4;
  return std::min({kPrefix, model.info().max_rows,
                   model.info().max_context - max_rows,
                   model.kv_usage().total_tokens / kPoolParts});
}

// Times of row counts, each the best of as many passes as its share of the
// time allows.
class Sweeps {
 public:
  Sweeps(ScratchSequence& scratch, const Executor& clock, absl::Time end)
      : scratch_(scratch), clock_(clock), end_(end) {}

  // Sweep after sweep, so that a disturbance does not hit all of one count. The
  // first one leaves half of the time: counts that were timed once are worth
  // less than those that follow from others that were timed well.
  // REQUIRES: the first of `counts` took `first`.
  PassCosts Run(const std::vector<int64_t>& counts, absl::Duration first) {
    best_ = {{counts[0], first}};
    spent_.assign(counts.size(), absl::ZeroDuration());
    spent_[0] = first;
    const absl::Duration time = end_ - clock_.Now();
    const absl::Duration share = time / static_cast<int64_t>(counts.size());
    const absl::Time new_until = clock_.Now() + time / 2;
    for (bool again = true; again;) {
      again = false;
      for (size_t i = 0; i < counts.size(); ++i) {
        const bool is_new = i == best_.size();
        const absl::Duration expected = Expected(i, counts[i]);
        if (clock_.Now() + expected > (is_new ? new_until : end_)) break;
        if (!is_new && spent_[i] + expected > share) continue;
        if (!Time(i, counts[i])) break;
        again = true;
      }
    }
    return std::move(best_);
  }

 private:
  // What the next pass may take: what it took, or at most its part of the rows.
  absl::Duration Expected(size_t index, int64_t rows) const {
    if (index < best_.size()) return best_[index].time;
    return best_.back().time * rows / best_.back().rows;
  }

  bool Time(size_t index, int64_t rows) {
    const auto time = scratch_.TimePass(rows, clock_);
    if (!time.ok()) return false;
    if (index == best_.size()) best_.push_back({rows, *time});
    best_[index].time = std::min(best_[index].time, *time);
    spent_[index] += *time;
    return true;
  }

  ScratchSequence& scratch_;
  const Executor& clock_;
  const absl::Time end_;
  PassCosts best_;  // of the first row counts
  std::vector<absl::Duration> spent_;
};

void RaiseFallingTimes(PassCosts& costs) {
  for (size_t i = 1; i < costs.size(); ++i) {
    costs[i].time = std::max(costs[i].time, costs[i - 1].time);
  }
}

}  // namespace

absl::StatusOr<PassCosts> MeasurePassCosts(LanguageModel& model,
                                           const Executor& clock,
                                           const MeasureOptions& options) {
  const absl::Time begin = clock.Now();
  const absl::Time end = begin + options.time_budget;
  const std::vector<int64_t> counts = RowCounts(options.max_rows, model.info());
  ScratchSequence scratch(model);
  // The first pass touches memory that later ones find warm.
  RETURN_IF_ERROR(scratch.TimePass(counts[0], clock).status());
  ASSIGN_OR_RETURN(const absl::Duration cold,
                   scratch.TimePass(counts[0], clock));
  scratch.AddPrefix(PrefixLength(model, counts.back()), cold, clock,
                    begin + kPrefixShare * options.time_budget);
  ASSIGN_OR_RETURN(const absl::Duration first,
                   scratch.TimePass(counts[0], clock));
  PassCosts measured = Sweeps(scratch, clock, end).Run(counts, first);
  RaiseFallingTimes(measured);
  PassCosts costs;
  for (int64_t rows : counts) {
    costs.push_back({rows, PassTime(measured, rows)});
  }
  return costs;
}

}  // namespace espalier::verifier
