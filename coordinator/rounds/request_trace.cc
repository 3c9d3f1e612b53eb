#include "coordinator/rounds/request_trace.h"

#include <algorithm>
#include <utility>

namespace espalier::coordinator {
namespace {

double Ms(absl::Duration time) { return absl::ToDoubleMilliseconds(time); }

}  // namespace

RequestTrace::RequestTrace(Options options, absl::Time arrival)
    : options_(options),
      context_(NewSpanOf(options_.parent)),
      arrival_(arrival) {}

void RequestTrace::Record(const char* name, absl::Time start, absl::Time end,
                          LogFields attributes) const {
  options_.sink->Record({.name = name,
                         .context = NewSpanOf(context_),
                         .parent = context_.span,
                         .start = start,
                         .end = end,
                         .attributes = std::move(attributes)});
}

void RequestTrace::EndRound(const DecodeRound::Result& result,
                            const StepInfo& step, absl::Time now) {
  if (!options_.rounds) return;
  Record("round", round_began_, now,
         {{"step", step.step},
          {"nodes", step.num_draft_tokens},
          {"accepted", step.num_accepted_tokens},
          {"draft_wait_ms", Ms(result.draft_wait)},
          {"merge_ms", Ms(result.merge)},
          {"verify_ms", Ms(result.verify_result.timings.total())},
          {"round_trip_ms", Ms(result.round_trip)}});
}

void RequestTrace::Finish(const absl::Status& status,
                          const GenerationReport& report, LogFields attributes,
                          absl::Time now) {
  const Timing& timing = report.timing;
  const absl::Time started = std::min(arrival_ + timing.queue, now);
  const bool has_tokens = report.spec.num_spec_steps > 0;
  const absl::Time first =
      has_tokens ? std::min(arrival_ + timing.time_to_first_token, now) : now;
  Record("queue", arrival_, started);
  if (started < now) Record("prompt", started, first);
  if (has_tokens) {
    Record("decode", first, now,
           {{"draft_wait_ms", Ms(timing.draft_wait)},
            {"merge_ms", Ms(timing.merge)},
            {"verify_ms", Ms(timing.verify)},
            {"wire_ms", Ms(timing.wire)}});
  }
  options_.sink->Record(
      {.name = "generate",
       .context = context_,
       .parent = options_.parent.span,
       .serves = true,
       .start = arrival_,
       .end = now,
       .attributes = std::move(attributes),
       .error = status.ok() ? "" : absl::StatusCodeToString(status.code())});
}

std::optional<RequestTrace::Options> RequestTracer::Choose(
    const std::string& traceparent) {
  if (tracing_.sink == nullptr) return std::nullopt;
  RequestTrace::Options options = {.sink = tracing_.sink, .parent = {}};
  if (const auto client = ParseTraceparent(traceparent)) {
    if (!client->sampled) return std::nullopt;
    options.parent = *client;
  } else {
    if (!absl::Bernoulli(random_, tracing_.requests)) return std::nullopt;
    options.parent = NewTrace();
  }
  options.rounds = absl::Bernoulli(random_, tracing_.rounds);
  return options;
}

}  // namespace espalier::coordinator
