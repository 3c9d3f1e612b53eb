#include "coordinator/rounds/generation_recorder.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace espalier::coordinator {

GenerationRecorder::GenerationRecorder(Options options)
    : metrics_(*options.metrics),
      arrival_(options.arrival),
      num_resumed_tokens_(options.num_resumed_tokens),
      wanted_rule_(options.rule),
      rule_obstacle_(std::move(options.rule_obstacle)) {
  report_.warnings = std::move(options.warnings);
  report_.usage.prompt_tokens = options.num_prompt_tokens;
  report_.spec.strategy = std::move(options.strategy);
  report_.spec.rule = std::move(options.rule);
}

void GenerationRecorder::Start(absl::Time now, const DraftFanout& drafters) {
  started_ = true;
  report_.timing.queue = now - arrival_;
  for (int i = 0; i < drafters.num_drafters(); ++i) {
    report_.spec.drafters.push_back({.name = drafters.drafter(i).name});
  }
  metrics_.requests.queue_time.Observe(
      absl::ToDoubleSeconds(report_.timing.queue));
  metrics_.requests.prompt_tokens.Increment(
      static_cast<double>(report_.usage.prompt_tokens));
  metrics_.requests.prompt_length.Observe(
      static_cast<double>(report_.usage.prompt_tokens));
}

StepInfo GenerationRecorder::Commit(const DecodeRound::Result& result,
                                    const Session::Committed& committed,
                                    const DraftFanout& drafters) {
  // Accepted tokens after a stop token never reach the text.
  const int64_t num_accepted =
      std::min(static_cast<int64_t>(result.verify_result.path.size()),
               committed.num_kept);
  EndsWith(committed);
  CountStep(result, num_accepted, committed.num_kept);
  CountDrafters(result, num_accepted, drafters);
  CountTimes(result);
  return {.step = report_.spec.num_spec_steps,
          .num_draft_tokens = result.tree->num_nodes() - 1,
          .num_accepted_tokens = num_accepted};
}

void GenerationRecorder::EndsWith(const Session::Committed& committed) {
  report_.matched_stop_token = committed.matched_stop_token;
  report_.matched_stop_string = committed.matched_stop_string;
}

void GenerationRecorder::CountStep(const DecodeRound::Result& result,
                                   int64_t num_accepted, int64_t num_kept) {
  const int64_t num_nodes = result.tree->num_nodes() - 1;
  SpecStats& spec = report_.spec;
  if (spec.num_spec_steps == 0) {
    report_.usage.cached_tokens = std::clamp<int64_t>(
        result.verify_result.cached_tokens, 0, report_.usage.prompt_tokens);
    metrics_.requests.cached_tokens.Increment(
        static_cast<double>(report_.usage.cached_tokens));
  }
  ++spec.num_spec_steps;
  spec.plain_steps += result.rested ? 1 : 0;
  spec.num_draft_tokens += num_nodes;
  spec.num_accepted_draft_tokens += num_accepted;
  spec.num_emitted += num_kept;
  spec.near_ties += result.verify_result.near_ties;
  if (static_cast<int64_t>(spec.acceptance_histogram.size()) <= num_accepted) {
    spec.acceptance_histogram.resize(num_accepted + 1);
  }
  ++spec.acceptance_histogram[num_accepted];
  if (result.degraded) {
    ++spec.degraded_steps;
    metrics_.Count(*result.degraded);
  }
  if (num_nodes > 0) {
    ++num_trees_;
    num_other_rules_ += result.verify_result.rule != wanted_rule_;
  }
  // A root alone needs no rule, so no other rule was applied.
  const bool applied = num_nodes > 0 && result.verify_result.rule != spec.rule;
  if (spec_metrics_ == nullptr || applied) {
    spec.rule = result.verify_result.rule;
    spec_metrics_ = &metrics_.Spec(spec.strategy, spec.rule);
  }
  spec_metrics_->Count({.max_nodes = result.max_nodes,
                        .num_nodes = num_nodes,
                        .num_accepted = num_accepted,
                        .num_emitted = num_kept});
  metrics_.requests.near_ties.Increment(result.verify_result.near_ties);
  metrics_.requests.generation_tokens.Increment(static_cast<double>(num_kept));
}

void GenerationRecorder::CountDrafters(const DecodeRound::Result& result,
                                       int64_t num_accepted,
                                       const DraftFanout& drafters) {
  const TokenTree& tree = *result.tree;
  if (tree.num_nodes() == 1) return;
  std::vector<DrafterShare> step(report_.spec.drafters.size());
  for (int64_t node = 1; node < tree.num_nodes(); ++node) {
    for (uint64_t bits = tree.provenance[node]; bits != 0; bits &= bits - 1) {
      ++step[std::countr_zero(bits)].proposed;
    }
  }
  for (int64_t i = 0; i < num_accepted; ++i) {
    const uint64_t all = tree.provenance[result.verify_result.path[i]];
    for (uint64_t bits = all; bits != 0; bits &= bits - 1) {
      ++step[std::countr_zero(bits)].accepted;
    }
    if (std::has_single_bit(all)) {
      ++step[std::countr_zero(all)].uniquely_accepted;
    }
  }
  for (size_t i = 0; i < step.size(); ++i) {
    DrafterPeer& drafter = drafters.drafter(static_cast<int>(i));
    drafter.counts.proposed += step[i].proposed;
    drafter.counts.accepted += step[i].accepted;
    drafter.counts.uniquely_accepted += step[i].uniquely_accepted;
    const DrafterMetrics& metrics = *drafter.metrics;
    metrics.proposed_tokens.Increment(step[i].proposed);
    metrics.accepted_tokens.Increment(step[i].accepted);
    metrics.uniquely_accepted_tokens.Increment(step[i].uniquely_accepted);
    DrafterShare& share = report_.spec.drafters[i];
    share.proposed += step[i].proposed;
    share.accepted += step[i].accepted;
    share.uniquely_accepted += step[i].uniquely_accepted;
  }
}

void GenerationRecorder::CountTimes(const DecodeRound::Result& result) {
  // The verifier measures with its own clock, so it may report more than the
  // whole round trip.
  const absl::Duration verify =
      std::clamp(result.verify_result.timings.total(), absl::ZeroDuration(),
                 std::max(result.round_trip, absl::ZeroDuration()));
  const absl::Duration wire = result.round_trip - verify;
  Timing& timing = report_.timing;
  timing.draft_wait += result.draft_wait;
  timing.merge += result.merge;
  timing.verify += verify;
  timing.wire += wire;
  const StageMetrics& stages = metrics_.stages;
  stages.draft_wait.Observe(absl::ToDoubleSeconds(result.draft_wait));
  stages.merge.Observe(absl::ToDoubleSeconds(result.merge));
  stages.verify.Observe(absl::ToDoubleSeconds(verify));
  stages.wire.Observe(absl::ToDoubleSeconds(wire));
}

void GenerationRecorder::Emit(const StepTimes& times, int64_t num_tokens) {
  metrics_.stages.commit.Observe(
      absl::ToDoubleSeconds(times.committed - times.verified));
  metrics_.stages.emit.Observe(
      absl::ToDoubleSeconds(times.emitted - times.committed));
  if (first_emit_) {
    metrics_.requests.inter_chunk_latency.Observe(
        absl::ToDoubleSeconds(times.emitted - last_emit_));
  } else {
    first_emit_ = times.emitted;
    num_first_tokens_ = num_tokens;
    report_.timing.time_to_first_token = times.emitted - arrival_;
    metrics_.requests.time_to_first_token.Observe(
        absl::ToDoubleSeconds(report_.timing.time_to_first_token));
  }
  last_emit_ = times.emitted;
}

void GenerationRecorder::WarnOfOtherRule() {
  if (wanted_rule_ == "auto" || num_other_rules_ == 0) return;
  report_.warnings.push_back(
      absl::StrCat("speculation.rule: \"", wanted_rule_, "\" was asked for; \"",
                   report_.spec.rule, "\" was applied in ", num_other_rules_,
                   " of ", num_trees_, " verifications of trees",
                   rule_obstacle_.empty() ? "" : ": ", rule_obstacle_));
}

void GenerationRecorder::CountBalance(const DecodeRound& round) {
  report_.spec.plain_round = round.PlainRound();
  for (const auto& [set, won] : round.balance()) {
    std::vector<std::string> names;
    for (uint64_t bits = set; bits != 0; bits &= bits - 1) {
      names.push_back(round.drafters().drafter(std::countr_zero(bits)).name);
    }
    metrics_.Balance(absl::StrJoin(names, "+"))
        .Increment(absl::ToDoubleSeconds(won));
    report_.spec.balance += won;
  }
}

const GenerationReport& GenerationRecorder::Finish(absl::Time now,
                                                   const absl::Status& status,
                                                   FinishReason reason,
                                                   const DecodeRound& round) {
  const DraftFanout& drafters = round.drafters();
  report_.finish_reason = reason;
  WarnOfOtherRule();
  CountBalance(round);
  report_.usage.completion_tokens =
      num_resumed_tokens_ + report_.spec.num_emitted;
  report_.timing.total = now - arrival_;
  if (!started_) report_.timing.queue = now - arrival_;
  for (size_t i = 0; i < report_.spec.drafters.size(); ++i) {
    report_.spec.drafters[i].timeouts = drafters.troubles(i).timeouts;
    report_.spec.drafters[i].errors = drafters.troubles(i).errors;
  }
  const int64_t num_later = report_.spec.num_emitted - num_first_tokens_;
  if (first_emit_ && num_later > 0) {
    metrics_.requests.time_per_output_token.Observe(
        absl::ToDoubleSeconds(last_emit_ - *first_emit_) / num_later);
  }
  metrics_.requests.duration.Observe(
      absl::ToDoubleSeconds(report_.timing.total));
  metrics_.requests.generation_length.Observe(
      static_cast<double>(report_.spec.num_emitted));
  metrics_.CountRequest(status.code(), reason);
  return report_;
}

}  // namespace espalier::coordinator
