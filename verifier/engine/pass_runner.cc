#include "verifier/engine/pass_runner.h"

#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"
#include "verifier/engine/session_part.h"

namespace espalier::verifier {
namespace {

// An error that concerns one session is its answer.
absl::Status OnlyLoss(const absl::Status& status) {
  return absl::IsUnavailable(status) ? status : absl::OkStatus();
}

// Attributes the time of the pass as VerifyTimings describes.
void AddTimes(const TargetPass::Output& output, const TargetPass::Part& part,
              Job& job) {
  const absl::Duration time = output.end - output.begin;
  job.timings.queue += output.begin - job.waiting_since;
  job.waiting_since = output.end;
  if (part.tree == nullptr) {
    job.timings.prefill += time;
    return;
  }
  const absl::Duration prefill = time * part.prompt_rows() / part.rows();
  job.timings.prefill += prefill;
  job.timings.forward = time - prefill;
}

}  // namespace

absl::Status PassRunner::Run(absl::Span<const PassMember> members) {
  std::vector<TargetPass::Part> parts;
  for (const PassMember& member : members) {
    Session& session = *member.session;
    parts.push_back(PartOf(session, member.share, parts_.model,
                           parts_.features.Collects(session)));
  }
  ASSIGN_OR_RETURN(const absl::Duration measuring,
                   parts_.measuring.Before(parts));
  for (const PassMember& member : members) {
    member.session->job->timings.measuring += measuring;
  }
  const auto output = parts_.target_pass.Forward(std::move(parts));
  if (!output.ok()) {
    RETURN_IF_ERROR(OnlyLoss(output.status()));
    if (members.size() > 1) return RunEach(members);
    members[0].session->Answer(output.status());
    return absl::OkStatus();
  }
  parts_.metrics.ObservePass(std::ssize(members), output->rows());
  parts_.measuring.Observe(*output);
  for (size_t i = 0; i < members.size(); ++i) {
    RETURN_IF_ERROR(Finish(*members[i].session, *output, i));
  }
  return absl::OkStatus();
}

absl::Status PassRunner::RunEach(absl::Span<const PassMember> members) {
  for (size_t i = 0; i < members.size(); ++i) {
    RETURN_IF_ERROR(Run(members.subspan(i, 1)));
  }
  return absl::OkStatus();
}

absl::Status PassRunner::Finish(Session& session,
                                const TargetPass::Output& output,
                                size_t index) {
  const TargetPass::Part& part = output.parts[index];
  session.last_used = output.end;
  if (part.ranked_prompt_rows > 0) {
    session.ranked_end =
        parts_.model.Length(session.cache) + part.prompt_rows();
  }
  AddTimes(output, part, *session.job);
  if (part.tree == nullptr) return FinishPrompt(session, output, index);
  absl::StatusOr<VerifyResult> decided = DecideRound(session, output, index);
  const absl::Status status = decided.status();
  session.Answer(std::move(decided));
  return OnlyLoss(status);
}

absl::Status PassRunner::FinishPrompt(Session& session,
                                      const TargetPass::Output& output,
                                      size_t part) {
  // To the back of the queue.
  session.job->turn = parts_.sessions.NextPlace(session.delay);
  if (absl::Status status = parts_.target_pass.CommitPrompt(output, part);
      !status.ok()) {
    session.Answer(status);
    return OnlyLoss(status);
  }
  parts_.prefixes.OfferFeatures(session);
  return absl::OkStatus();
}

absl::StatusOr<VerifyResult> PassRunner::DecideRound(
    Session& session, const TargetPass::Output& output, size_t part) {
  Job& job = *session.job;
  job.timings.queue += parts_.clock.Now() - job.waiting_since;
  if (job.compared) {
    // A failure is reported when the round is decided.
    const auto lengths = parts_.target_pass.Compare(output, part, comparison_);
    if (lengths.ok()) parts_.metrics.ObserveRules(*lengths);
  }
  ASSIGN_OR_RETURN(VerifyResult verify_result,
                   parts_.target_pass.CommitTree(output, part));
  if (job.masked) {
    for (int32_t& node : verify_result.path) node = job.masked->nodes[node];
  }
  verify_result.round = job.request.update.round;
  verify_result.rule = job.rule->first;
  verify_result.timings.queue = job.timings.queue;
  verify_result.timings.room = job.timings.room;
  verify_result.timings.measuring = job.timings.measuring;
  verify_result.timings.prefill = job.timings.prefill;
  verify_result.timings.forward = job.timings.forward;
  verify_result.pass_costs = parts_.measuring.costs();
  verify_result.memory = parts_.memory.now();
  verify_result.cached_tokens = job.cached_tokens;
  if (job.request.logprobs.prompt) parts_.prefixes.OfferLogprobs(session);
  verify_result.prompt_logprobs = std::exchange(session.prompt_logprobs, {});
  session.tokens.insert(session.tokens.end(), verify_result.tokens.begin(),
                        verify_result.tokens.end());
  parts_.prefixes.OfferFeatures(session);
  if (!session.wanted.deferred) {
    verify_result.features = parts_.features.Take(session);
  }
  verify_result.stored = parts_.features.TakeStored(session);
  verify_result.ranks = std::exchange(session.ranks, {});
  session.last_verify_result = verify_result;
  session.answered = parts_.clock.Now();
  session.answered_rows = job.request.tree.num_nodes();
  parts_.metrics.ObserveRound(verify_result);
  if (!job.unsupported.empty()) {
    parts_.metrics.CountFallback(job.request.rule,
                                 std::string(job.unsupported));
  }
  return verify_result;
}

}  // namespace espalier::verifier
