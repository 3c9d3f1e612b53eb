#include "coordinator/rounds/generation.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/obs/log.h"
#include "common/speculation/request_errors.h"
#include "coordinator/metrics/coordinator_metrics.h"

namespace espalier::coordinator {
namespace {

// A verifier that has not answered for so long is named as the cause.
constexpr absl::Duration kLongSilence = absl::Seconds(2);

// Why the verifier may apply the walk instead of the rule that was asked for.
std::string RuleObstacle(const OutputPlan& output) {
  if (output.plan.session.sampling.greedy()) {
    return "at temperature 0 nothing is sampled";
  }
  const bool any_trusted =
      std::any_of(output.drafters.begin(), output.drafters.end(),
                  [](const DrafterPeer* drafter) { return drafter->trusted; });
  if (!any_trusted) {
    return "no drafter that was asked is in core.trusted_drafters, and others' "
           "distributions are not used";
  }
  if (output.plan.policy != nullptr &&
      !output.plan.policy->keeps_distributions()) {
    return absl::StrCat("the strategy \"", output.plan.strategy,
                        "\" does not keep the drafters' distributions");
  }
  return "the drafters' trees were not sampled as the rule needs them";
}

// Describes how an output has ended; never with text.
LogFields FieldsOf(const RequestPlan& plan, const absl::Status& status,
                   const GenerationReport& report) {
  const auto ms = [](absl::Duration time) {
    return std::round(absl::ToDoubleMicroseconds(time)) / 1000;
  };
  return {{"request_id", plan.request_id},
          {"output", report.output},
          {"tenant", plan.tenant},
          {"code", absl::StatusCodeToString(status.code())},
          {"finish", std::string(LabelOf(report.finish_reason))},
          {"prompt_tokens", report.usage.prompt_tokens},
          {"cached_tokens", report.usage.cached_tokens},
          {"tokens", report.usage.completion_tokens},
          {"verifications", report.spec.num_spec_steps},
          {"tau", std::round(report.spec.mean_acceptance_length() * 100) / 100},
          {"queue_ms", ms(report.timing.queue)},
          {"first_token_ms", ms(report.timing.time_to_first_token)},
          {"total_ms", ms(report.timing.total)}};
}

}  // namespace

Generation::Generation(const Environment* environment, Options options)
    : environment_(*environment),
      options_(std::move(options)),
      scope_(environment_.executor),
      trace_(options_.trace
                 ? std::optional<RequestTrace>(std::in_place, *options_.trace,
                                               options_.output.arrival)
                 : std::nullopt),
      session_(options_.output.sequence, ParamsOfSession()),
      round_(environment, &scope_, &options_.output),
      recorder_({.metrics = environment_.metrics,
                 .arrival = options_.output.arrival,
                 .num_prompt_tokens = session_.prompt_length(),
                 .num_resumed_tokens = session_.num_emitted(),
                 .strategy = plan().strategy,
                 .rule = plan().rule,
                 .rule_obstacle = RuleObstacle(options_.output),
                 .warnings = plan().warnings}) {
  if (environment_.pace > absl::ZeroDuration()) {
    pacer_.emplace(&scope_, environment_.pace, options_.sink.get());
  }
  const absl::Time deadline = options_.output.deadline;
  scope_.PostAt(deadline - kForTheCause, [this] { OnDeadlineNear(); });
  scope_.PostAt(deadline, [this] { OnDeadline(); });
}

void Generation::Run() {
  running_ = true;
  recorder_.Start(scope_.Now(), round_.drafters());
  JournalRequest request = {.id = absl::StrCat(session_.id().number),
                            .strategy = plan().strategy,
                            .request_id = plan().request_id};
  for (const DrafterPeer* drafter : options_.output.drafters) {
    request.drafters.push_back(drafter->name);
  }
  environment_.journal->Begin(session_.id().number, std::move(request));
  const bool is_at_end =
      session_.resumed().finish_reason != FinishReason::kUnspecified;
  is_at_end ? FinishResumed() : NextRound();
}

// The earlier call returned the last token, and its client did not learn that
// it was the last one.
void Generation::FinishResumed() {
  const Session::Committed& resumed = session_.resumed();
  if (options_.on_prefilled) std::exchange(options_.on_prefilled, nullptr)();
  const int64_t given = std::ssize(plan().session.resumed);
  if (resumed.num_kept < given) {
    Finish(FieldError(absl::StrCat("resumption.outputs[",
                                   options_.output.number, "].token_ids"),
                      absl::StrCat("token ", resumed.num_kept, " of ", given,
                                   " ends the output")),
           FinishReason::kError);
    return;
  }
  recorder_.EndsWith(resumed);
  Finish(absl::OkStatus(), resumed.finish_reason);
}

void Generation::NextRound() {
  if (trace_) trace_->BeginRound(scope_.Now());
  round_.Run(session_, [this](absl::StatusOr<DecodeRound::Result> result) {
    OnRound(std::move(result));
  });
}

void Generation::OnRound(absl::StatusOr<DecodeRound::Result> result) {
  if (!result.ok()) {
    OnError(result.status());
    return;
  }
  GenerationRecorder::StepTimes times = {.verified = scope_.Now()};
  const Session::Committed committed =
      session_.Commit(result->verify_result.tokens);
  const StepInfo info = recorder_.Commit(*result, committed, round_.drafters());
  times.committed = scope_.Now();
  if (trace_) trace_->EndRound(*result, info, times.verified);
  environment_.journal->Add(
      session_.id().number,
      {.step = info.step,
       .tree = *result->tree,
       .path = result->verify_result.path,
       .tokens = {result->verify_result.tokens.begin(),
                  result->verify_result.tokens.begin() + committed.num_kept},
       .max_nodes = result->max_nodes,
       .draft_wait = result->draft_wait,
       .round_trip = result->round_trip});
  if (options_.on_prefilled) std::exchange(options_.on_prefilled, nullptr)();
  Emit(PieceOf(std::move(result->verify_result), committed, info), committed);
  times.emitted = scope_.Now();
  recorder_.Emit(times, committed.num_kept);
  ends_as_ = committed.finish_reason;
  const bool ends = ends_as_ != FinishReason::kUnspecified;
  if (pacer_) {
    pacer_->Await(ends ? 0 : Pacer::kAhead, [this] { GoOn(); });
  } else {
    GoOn();
  }
}

void Generation::Emit(const OutputPiece& piece,
                      const Session::Committed& committed) {
  if (pacer_) {
    pacer_->Add(piece, committed.text_ends);
  } else {
    options_.sink->OnTokens(piece);
  }
}

void Generation::GoOn() {
  if (ends_as_ == FinishReason::kUnspecified) {
    NextRound();
  } else {
    Finish(absl::OkStatus(), ends_as_);
  }
}

OutputPiece Generation::PieceOf(VerifyResult verify_result,
                                const Session::Committed& committed,
                                const StepInfo& info) const {
  OutputPiece piece = {
      .output = options_.output.number,
      .tokens = session_.tokens().last(static_cast<size_t>(committed.num_kept)),
      .text = committed.text,
      .step = info,
      .logprobs = std::move(verify_result.logprobs),
      .cached_tokens = recorder_.cached_tokens(),
      .origin = plan().origin};
  if (plan().session.logprobs.emitted) {
    piece.logprobs.Cut(committed.num_kept);
  }
  if (options_.output.number == 0 &&
      session_.num_emitted() == committed.num_kept) {
    piece.prompt = session_.prompt();
    piece.prompt_logprobs = std::move(verify_result.prompt_logprobs);
  }
  return piece;
}

void Generation::OnError(const absl::Status& status) {
  if (absl::IsOutOfRange(status)) {
    OnNoLongerFits(status);
    return;
  }
  if (absl::IsResourceExhausted(status)) {
    environment_.metrics->Count(RejectReason::kKvFull);
  }
  Finish(status, FinishReason::kError);
}

// The verifier was restarted with less K/V room than the plan assumes.
void Generation::OnNoLongerFits(const absl::Status& status) {
  if (session_.num_emitted() > 0) {
    Finish(absl::OkStatus(), FinishReason::kLength);
  } else {
    Finish(FieldError("prompt", status.message()), FinishReason::kError);
  }
}

void Generation::OnDeadlineNear() {
  const absl::Duration silence = round_.verifier_silence();
  if (!round_.verifier_trouble().ok()) {
    Finish(round_.verifier_trouble(), FinishReason::kError);
  } else if (silence >= kLongSilence) {
    Finish(absl::DeadlineExceededError(absl::StrCat(
               "deadline of the request; the verifier has not answered for ",
               absl::ToInt64Seconds(silence), " s")),
           FinishReason::kDeadline);
  }
}

void Generation::OnDeadline() {
  if (ends_as_ != FinishReason::kUnspecified) return GoOn();
  if (!running_) environment_.metrics->Count(RejectReason::kDeadline);
  Finish(absl::DeadlineExceededError("deadline of the request"),
         FinishReason::kDeadline);
}

void Generation::Finish(absl::Status status, FinishReason reason) {
  if (absl::IsResourceExhausted(status)) {
    status = WithRetryAfter(WithReason(std::move(status), "VERIFIER_FULL"),
                            environment_.retry_advice->Next());
  } else if (absl::IsUnavailable(status)) {
    status = WithRetryAfter(std::move(status), environment_.retry_after);
  }
  if (pacer_) pacer_->Flush();
  scope_.Close();
  if (running_) environment_.journal->End(session_.id().number);
  round_.End(session_);
  GenerationReport report =
      recorder_.Finish(scope_.Now(), status, reason, round_);
  report.output = options_.output.number;
  report.last_text = session_.FlushText();
  Publish(status, report);
  options_.sink->OnFinish(status, report);
  std::move(options_.on_finished)(status);
}

// The span of this output is the parent of those of its peers.
SessionParams Generation::ParamsOfSession() const {
  SessionParams params = plan().session;
  if (trace_) params.traceparent = trace_->traceparent();
  return params;
}

// Writes the line of the log and the spans that are wanted.
void Generation::Publish(const absl::Status& status,
                         const GenerationReport& report) {
  const std::string& traceparent = plan().session.traceparent;
  const bool logs = environment_.log_requests || !traceparent.empty();
  if (!logs && !trace_) return;
  LogFields fields = FieldsOf(plan(), status, report);
  if (logs) {
    LogFields line = fields;
    if (trace_ || !traceparent.empty()) {
      line.push_back(
          {"traceparent", trace_ ? trace_->traceparent() : traceparent});
    }
    LogInfo("request", line);
  }
  if (trace_) trace_->Finish(status, report, std::move(fields), scope_.Now());
}

}  // namespace espalier::coordinator
