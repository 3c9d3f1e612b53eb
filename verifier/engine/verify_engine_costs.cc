#include <algorithm>

#include "absl/types/span.h"
#include "verifier/costs/measure_pass_costs.h"
#include "verifier/engine/verify_engine.h"
#include "verifier/rules/verification_rules.h"

// Upkeep of the pass costs: measuring passes before passes and while idle.

namespace espalier::verifier {
namespace {

// Pause after an idle measurement, as a multiple of its duration.
constexpr int kMeasurementPause = 4;

// Returns a root with its children.
TokenTree StarOf(absl::Span<const TokenId> tokens) {
  TokenTree tree = TokenTree::RootOnly(tokens[0]);
  for (TokenId token : tokens.subspan(1)) tree.Add(0, token, 0);
  return tree;
}

}  // namespace

void VerifyEngine::ObservePass(const TargetPass::Output& output) {
  metrics_.ObservePass(static_cast<int64_t>(output.parts.size()),
                       output.rows());
  if (!output.is_whole_trees()) return;
  costs_.Observe(output.rows(), output.end - output.begin);
  PublishCosts();
}

void VerifyEngine::PublishCosts() {
  metrics_.SetPassCosts(costs_.points());
  MutexLock lock(&published_mutex_);
  published_costs_ = costs_.points();
}

// Times a pass on a scratch sequence. Only the number of its rows matters.
// Unset: the pass failed, for example because the K/V pool is full.
std::optional<absl::Duration> VerifyEngine::TimePass(int64_t rows) {
  const TokenTree star =
      StarOf(TokensToTime(rows, model_->info().config.vocab_size));
  const SamplingParams greedy;
  const CacheId scratch = model_->NewSequence();
  const auto output =
      target_pass_.Forward({{.cache = scratch,
                             .tree = &star,
                             .sampling = &greedy,
                             .rule = rules_.at(kDefaultRule).get()}});
  model_->Release(scratch);
  if (absl::IsUnavailable(output.status())) GiveUp(output.status());
  if (!output.ok()) return std::nullopt;
  return output->end - output->begin;
}

// Returns the faster of two passes if the first one seems to have been
// interrupted.
std::optional<VerifyEngine::Measurement> VerifyEngine::Measure(int64_t rows) {
  const auto first = TimePass(rows);
  if (!first) return std::nullopt;
  if (!costs_.SeemsInterrupted(rows, *first)) return {{*first, *first}};
  const auto second = TimePass(rows);
  if (!second) return std::nullopt;
  return {{std::min(*first, *second), *first + *second}};
}

// Runs seldom, as the sessions of the pass wait for it.
void VerifyEngine::MeasureBefore(absl::Span<const TargetPass::Part> parts) {
  int64_t rows = 0;
  for (const TargetPass::Part& part : parts) {
    if (!part.prompt.empty()) return;
    rows += part.rows();
  }
  const std::optional<int64_t> measured = costs_.RowsBefore(rows);
  if (!measured) return;
  const auto result = Measure(*measured);
  if (result) costs_.ObserveBefore(*measured, result->time, result->spent);
}

void VerifyEngine::PostMeasurement(absl::Duration pause) {
  if (measurement_is_posted_ || !costs_.RowsAtRest()) return;
  measurement_is_posted_ = true;
  executor_->PostAt(executor_->Now() + pause, [this] {
    measurement_is_posted_ = false;
    MeasureAtRest();
  });
}

// Runs one measurement at a time, so a request that arrives meanwhile waits for
// at most two passes.
void VerifyEngine::MeasureAtRest() {
  const std::optional<int64_t> rows = costs_.RowsAtRest();
  if (stopping_ || !lost_.ok() || !rows) return;
  if (executor_->Now() < last_request_ + kRest) {
    PostMeasurement(kRest);
    return;
  }
  const auto result = Measure(*rows);
  if (!result) return;  // the next request triggers another try
  costs_.Observe(*rows, result->time);
  PublishCosts();
  PostMeasurement(kMeasurementPause * result->spent);
}

}  // namespace espalier::verifier
