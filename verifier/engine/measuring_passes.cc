#include "verifier/engine/measuring_passes.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/status_macros.h"
#include "common/speculation/token_tree.h"
#include "verifier/costs/measure_pass_costs.h"

namespace espalier::verifier {
namespace {

// The engine is idle after this long without a request. Longer than the time
// between two rounds of a session, when drafters work.
constexpr absl::Duration kRest = absl::Milliseconds(100);

// Pause after an idle measurement, as a multiple of its duration.
constexpr int kMeasurementPause = 4;

// Returns a root with its children.
TokenTree StarOf(absl::Span<const TokenId> tokens) {
  TokenTree tree = TokenTree::RootOnly(tokens[0]);
  for (TokenId token : tokens.subspan(1)) tree.Add(0, token, 0);
  return tree;
}

}  // namespace

MeasuringPasses::MeasuringPasses(
    const Parts& parts, CostUpkeep costs, TreeRouting routing,
    absl::AnyInvocable<void(const absl::Status&)> on_lost)
    : parts_(parts),
      costs_(std::move(costs)),
      routing_(std::move(routing)),
      on_lost_(std::move(on_lost)),
      published_(costs_.points()) {}

PassCosts MeasuringPasses::published() const {
  MutexLock lock(&mutex_);
  return published_;
}

void MeasuringPasses::Publish() {
  parts_.metrics.SetPassCosts(costs_.points());
  MutexLock lock(&mutex_);
  published_ = costs_.points();
}

void MeasuringPasses::Observe(const TargetPass::Output& output) {
  if (!output.is_whole_trees()) return;
  costs_.Observe(output.rows(), output.end - output.begin);
  routing_.ObserveTree(output.rows(), output.experts);
  Publish();
}

absl::StatusOr<absl::Duration> MeasuringPasses::Before(
    absl::Span<const TargetPass::Part> parts) {
  int64_t rows = 0;
  for (const TargetPass::Part& part : parts) {
    if (!part.prompt.empty()) return absl::ZeroDuration();
    rows += part.rows();
  }
  const std::optional<int64_t> measured = costs_.RowsBefore(rows);
  if (!measured) return absl::ZeroDuration();
  const auto result = Measure(*measured);
  if (absl::IsUnavailable(result.status())) return result.status();
  if (!result.ok()) return absl::ZeroDuration();
  costs_.ObserveBefore(*measured, result->time, result->spent);
  return result->spent;
}

void MeasuringPasses::OnRequest() {
  last_request_ = parts_.executor.Now();
  PostMeasurement(kRest);
}

// Times a pass on a scratch sequence. Only the number of its rows matters, and
// how many of them are unlike. It may fail, for example because the K/V pool is
// full.
absl::StatusOr<absl::Duration> MeasuringPasses::TimePass(int64_t rows) {
  const TokenTree star = StarOf(TokensToTime(
      rows, routing_.UnlikeRows(rows), parts_.model.info().config.vocab_size));
  const SamplingParams greedy;
  const CacheId scratch = parts_.model.NewSequence();
  const auto output = parts_.target_pass.Forward({{.cache = scratch,
                                                   .tree = &star,
                                                   .sampling = &greedy,
                                                   .rule = &parts_.rule}});
  parts_.model.Release(scratch);
  RETURN_IF_ERROR(output.status());
  return output->end - output->begin;
}

// Returns the faster of two passes if the first one seems to have been
// interrupted.
absl::StatusOr<MeasuringPasses::Measurement> MeasuringPasses::Measure(
    int64_t rows) {
  ASSIGN_OR_RETURN(const absl::Duration first, TimePass(rows));
  if (!costs_.SeemsInterrupted(rows, first)) return Measurement{first, first};
  ASSIGN_OR_RETURN(const absl::Duration second, TimePass(rows));
  return Measurement{std::min(first, second), first + second};
}

void MeasuringPasses::PostMeasurement(absl::Duration pause) {
  if (is_posted_ || !costs_.RowsAtRest()) return;
  is_posted_ = true;
  parts_.executor.PostAt(parts_.executor.Now() + pause, [this] {
    is_posted_ = false;
    MeasureAtRest();
  });
}

// Runs one measurement at a time, so a request that arrives meanwhile waits for
// at most two passes.
void MeasuringPasses::MeasureAtRest() {
  const std::optional<int64_t> rows = costs_.RowsAtRest();
  if (stopped_ || !rows) return;
  if (parts_.executor.Now() < last_request_ + kRest) {
    PostMeasurement(kRest);
    return;
  }
  const auto result = Measure(*rows);
  if (absl::IsUnavailable(result.status())) on_lost_(result.status());
  if (!result.ok()) return;  // the next request triggers another try
  costs_.Observe(*rows, result->time);
  Publish();
  PostMeasurement(kMeasurementPause * result->spent);
}

}  // namespace espalier::verifier
