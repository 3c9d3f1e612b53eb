#include "verifier/costs/measure_pass_costs.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"

namespace espalier::verifier {
namespace {

// The row counts for a model that names no edges: those of the CPU backends'
// register tiles (6, 12 and 16 rows), each with the next row count. There are
// few points, so that each is timed well: a wrong point makes rows look free
// that are not.
constexpr int64_t kRowCounts[] = {1,  2,  4,  6,  7,  12,  13,
                                  16, 17, 24, 32, 64, 128, 256};
// Share of the budget for caching the prefix that the rows attend to.
constexpr int64_t kPrefix = 256;
constexpr double kPrefixShare = 0.25;
// Share of the budget in which row counts are timed for the first time.
constexpr double kNewShare = 0.5;
// So many passes of each row count are enough: those of a small model take less
// than the budget.
constexpr int kEnoughPasses = 16;

// A sequence of the model that is released at the end of the scope.
class ScratchSequence {
 public:
  explicit ScratchSequence(LanguageModel& model)
      : model_(model), cache_(model.NewSequence()) {}
  ~ScratchSequence() { model_.Release(cache_); }
  ScratchSequence(const ScratchSequence&) = delete;
  ScratchSequence& operator=(const ScratchSequence&) = delete;

  // Caches almost `length` tokens, or fewer: skips a pass that fails, or that
  // would end too late if it takes twice the time of half the rows. One row
  // takes `time`.
  void AddPrefix(int64_t length, absl::Duration time, const Executor& clock,
                 absl::Time end) {
    for (int64_t rows = 1; model_.Length(cache_) + rows <= length; rows *= 2) {
      const absl::Time begin = clock.Now();
      const std::vector<TokenId> chunk = Tokens(rows);
      if (begin + 2 * time > end) return;
      if (!Prefill(model_, cache_, chunk, rows).ok()) return;
      time = clock.Now() - begin;
    }
  }

  // Returns what the last pass read of a mixture; 0: there are no experts.
  int64_t experts_read() const { return model_.experts_read(); }

  // Times one pass over a root and its children, nothing kept.
  absl::StatusOr<absl::Duration> TimePass(int64_t rows, const Executor& clock) {
    const std::vector<TokenId> tokens = Tokens(rows);
    std::vector<int32_t> parents(rows, 0);
    parents[0] = kPrefixParent;
    const SequenceRows tree = {.cache = cache_,
                               .tokens = tokens,
                               .parents = parents,
                               .num_logit_rows = rows,
                               .use = DrawRequest{}};  // the usual use
    const absl::Time begin = clock.Now();
    RETURN_IF_ERROR(model_.Forward({&tree, 1}).status());
    return clock.Now() - begin;
  }

 private:
  std::vector<TokenId> Tokens(int64_t rows) const {
    return TokensToTime(rows, rows, model_.info().config.vocab_size);
  }

  LanguageModel& model_;
  const CacheId cache_;
};

// Ascending, from 1 row on.
std::vector<int64_t> PointsOf(const ModelInfo& model) {
  if (model.row_edges.empty()) {
    return {std::begin(kRowCounts), std::end(kRowCounts)};
  }
  std::vector<int64_t> points = {1};
  for (int64_t edge : model.row_edges) {
    for (int64_t rows : {edge, edge + 1}) {
      if (rows > points.back()) points.push_back(rows);
    }
  }
  return points;
}

std::vector<int64_t> RowCounts(int64_t max_rows, const ModelInfo& model) {
  const int64_t limit = std::min({max_rows, model.max_rows, model.max_context});
  std::vector<int64_t> counts;
  for (int64_t rows : PointsOf(model)) {
    if (rows == 1 || rows <= limit) counts.push_back(rows);
  }
  return counts;
}

// Leaves room for the rows, also in a small pool.
int64_t PrefixLength(const LanguageModel& model, int64_t max_rows) {
  constexpr int64_t kPoolParts = 4;
  return std::min({kPrefix, model.info().max_rows,
                   model.info().max_context - max_rows,
                   model.info().kv_groups.TokensIn(
                       model.kv_usage().total_tokens / kPoolParts)});
}

// Times of row counts, each the best of as many passes as there is time for.
class Timings {
 public:
  // `first`: of one row, the first of `counts`.
  Timings(ScratchSequence& scratch, const Executor& clock,
          const std::vector<int64_t>& counts, absl::Duration first)
      : scratch_(scratch),
        clock_(clock),
        counts_(counts),
        best_{{counts[0], first}},
        read_{{counts[0], scratch.experts_read()}},
        longest_{first},
        num_passes_{1},
        spent_{first} {}

  // Times the first counts, as many as begin by `new_until`, which leaves time
  // for repeats: a count that was timed once is less accurate than one
  // interpolated from counts that were timed well.
  MeasuredCosts Take(absl::Time new_until, absl::Time end) {
    while (best_.size() < counts_.size() && clock_.Now() < new_until) {
      if (!TimeUntil(end, best_.size())) break;
    }
    // Counts take turns, so that a disturbance does not hit all passes of one
    // count.
    while (!AllAreTimedOften() && TimeUntil(end, LeastTimed())) {
    }
    const bool is_doubtful = IsDoubtful();
    LowerToLater();
    if (read_.back().experts == 0) read_.clear();
    return {std::move(best_), is_doubtful, std::move(read_)};
  }

 private:
  bool IsDoubtful() const {
    constexpr double kSame = 1.5;
    size_t sure = 0;
    for (size_t i = 0; i < best_.size(); ++i) {
      sure += num_passes_[i] > 1 && longest_[i] < kSame * best_[i].time;
    }
    return 2 * sure < counts_.size();
  }

  bool AllAreTimedOften() const {
    return *std::min_element(num_passes_.begin(), num_passes_.end()) >=
           kEnoughPasses;
  }

  size_t LeastTimed() const {
    return std::min_element(spent_.begin(), spent_.end()) - spent_.begin();
  }

  // Returns whether there was time for a pass, and it succeeded.
  bool TimeUntil(absl::Time end, size_t index) {
    const int64_t rows = counts_[index];
    if (clock_.Now() + PassTime(best_, rows) > end) return false;
    const auto time = scratch_.TimePass(rows, clock_);
    if (!time.ok()) return false;
    if (index == best_.size()) {
      best_.push_back({rows, *time});
      read_.push_back({rows, scratch_.experts_read()});
      longest_.emplace_back();
      num_passes_.emplace_back();
      spent_.emplace_back();
    }
    longest_[index] = std::max(longest_[index], *time);
    ++num_passes_[index];
    best_[index].time = std::min(best_[index].time, *time);
    spent_[index] += *time;
    return true;
  }

  // Disturbances only make passes longer, so the time of more rows is an upper
  // bound for fewer rows.
  void LowerToLater() {
    for (size_t i = best_.size() - 1; i > 0; --i) {
      best_[i - 1].time = std::min(best_[i - 1].time, best_[i].time);
    }
  }

  ScratchSequence& scratch_;
  const Executor& clock_;
  const std::vector<int64_t>& counts_;
  PassCosts best_;                       // of the first counts
  std::vector<ExpertsRead> read_;        // by passes of each of them
  std::vector<absl::Duration> longest_;  // passes of each count in `best_`
  std::vector<int> num_passes_;          // the same
  std::vector<absl::Duration> spent_;    // on each count in `best_`
};

}  // namespace

std::vector<TokenId> TokensToTime(int64_t rows, int64_t unlike,
                                  int64_t vocab_size) {
  constexpr int64_t kStep = 7919;  // a prime that few vocabularies divide by
  std::vector<TokenId> tokens;
  for (int64_t i = 0; i < rows; ++i) {
    tokens.push_back(static_cast<TokenId>(i % unlike * kStep % vocab_size));
  }
  return tokens;
}

absl::StatusOr<MeasuredCosts> MeasurePassCosts(LanguageModel& model,
                                               const Executor& clock,
                                               const MeasureOptions& options) {
  const absl::Time begin = clock.Now();
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
  MeasuredCosts measured = Timings(scratch, clock, counts, first)
                               .Take(begin + kNewShare * options.time_budget,
                                     begin + options.time_budget);
  PassCosts costs;
  for (int64_t rows : counts) {
    costs.push_back({rows, PassTime(measured.costs, rows)});
  }
  measured.costs = std::move(costs);
  return measured;
}

}  // namespace espalier::verifier
