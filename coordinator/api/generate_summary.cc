#include "coordinator/api/generate_summary.h"

#include "absl/time/time.h"

namespace espalier::coordinator {
namespace {

v1::FinishReason ToProto(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return v1::FINISH_REASON_STOP;
    case FinishReason::kLength:
      return v1::FINISH_REASON_LENGTH;
    default:  // the others end a call with an error
      return v1::FINISH_REASON_UNSPECIFIED;
  }
}

void FillUsage(const Usage& usage, v1::Usage& out) {
  out.set_prompt_tokens(static_cast<uint32_t>(usage.prompt_tokens));
  out.set_completion_tokens(static_cast<uint32_t>(usage.completion_tokens));
  out.set_cached_tokens(static_cast<uint32_t>(usage.cached_tokens));
  out.set_total_tokens(out.prompt_tokens() + out.completion_tokens());
}

void FillSpecStats(const SpecStats& stats, v1::SpecStats& out) {
  out.set_num_spec_steps(static_cast<uint32_t>(stats.num_spec_steps));
  out.set_num_draft_tokens(static_cast<uint32_t>(stats.num_draft_tokens));
  out.set_num_accepted_draft_tokens(
      static_cast<uint32_t>(stats.num_accepted_draft_tokens));
  out.set_mean_acceptance_length(stats.mean_acceptance_length());
  out.set_draft_acceptance_rate(stats.draft_acceptance_rate());
  for (int64_t steps : stats.acceptance_histogram) {
    out.add_acceptance_histogram(static_cast<uint32_t>(steps));
  }
  for (const DrafterShare& share : stats.drafters) {
    v1::DrafterStats& drafter = *out.add_drafters();
    drafter.set_name(share.name);
    drafter.set_proposed(static_cast<uint32_t>(share.proposed));
    drafter.set_accepted(static_cast<uint32_t>(share.accepted));
    drafter.set_uniquely_accepted(
        static_cast<uint32_t>(share.uniquely_accepted));
    drafter.set_timeouts(static_cast<uint32_t>(share.timeouts));
    drafter.set_errors(static_cast<uint32_t>(share.errors));
  }
  out.set_strategy(stats.strategy);
  out.set_rule(stats.rule);
  out.set_degraded_steps(static_cast<uint32_t>(stats.degraded_steps));
  out.set_near_ties(static_cast<uint32_t>(stats.near_ties));
  out.set_balance_ms(absl::ToDoubleMilliseconds(stats.balance));
  out.set_plain_round_ms(absl::ToDoubleMilliseconds(stats.plain_round));
  out.set_plain_steps(static_cast<uint32_t>(stats.plain_steps));
}

void FillTiming(const Timing& timing, v1::Timing& out) {
  out.set_queue_ms(absl::ToDoubleMilliseconds(timing.queue));
  out.set_time_to_first_token_ms(
      absl::ToDoubleMilliseconds(timing.time_to_first_token));
  out.set_total_ms(absl::ToDoubleMilliseconds(timing.total));
  out.set_draft_ms(absl::ToDoubleMilliseconds(timing.draft_wait));
  out.set_merge_ms(absl::ToDoubleMilliseconds(timing.merge));
  out.set_verify_ms(absl::ToDoubleMilliseconds(timing.verify));
  out.set_wire_ms(absl::ToDoubleMilliseconds(timing.wire));
}

}  // namespace

void HideRounds(v1::GenerateSummary& summary) {
  summary.clear_spec_stats();
  v1::Timing& timing = *summary.mutable_timing();
  timing.clear_total_ms();
  timing.clear_draft_ms();
  timing.clear_merge_ms();
  timing.clear_verify_ms();
  timing.clear_wire_ms();
}

v1::GenerateSummary Summarise(const GenerationReport& report, uint64_t seed) {
  v1::GenerateSummary out;
  out.set_finish_reason(ToProto(report.finish_reason));
  if (report.matched_stop_token) {
    out.set_matched_stop_token_id(
        static_cast<uint32_t>(*report.matched_stop_token));
  }
  if (report.matched_stop_string) {
    out.set_matched_stop(*report.matched_stop_string);
  }
  FillUsage(report.usage, *out.mutable_usage());
  FillSpecStats(report.spec, *out.mutable_spec_stats());
  FillTiming(report.timing, *out.mutable_timing());
  out.set_seed(seed);
  out.mutable_warnings()->Add(report.warnings.begin(), report.warnings.end());
  return out;
}

}  // namespace espalier::coordinator
