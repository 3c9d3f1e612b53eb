#include "verifier/engine/mask_desk.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace espalier::verifier {
namespace {

// Returns the tokens of the request's text that follow its prompt.
std::vector<TokenId> OutputOf(const VerifyRequest& request,
                              absl::Span<const TokenId> held) {
  const SequenceUpdate& update = request.update;
  std::vector<TokenId> output(
      held.begin(),
      held.begin() + std::min(update.base_length, std::ssize(held)));
  output.insert(output.end(), update.new_tokens.begin(),
                update.new_tokens.end());
  output.erase(output.begin(),
               output.begin() + std::min(std::ssize(output),
                                         request.adjustments.prompt_length));
  return output;
}

}  // namespace

MaskDesk::MaskDesk(std::shared_ptr<TreeMasker> masker, Executor& executor,
                   OnMasked on_masked)
    : masker_(std::move(masker)),
      executor_(executor),
      on_masked_(std::move(on_masked)) {}

void MaskDesk::Ask(std::unique_ptr<Job> job, absl::Span<const TokenId> held) {
  const VerifyRequest& request = job->request;
  const uint64_t ticket = next_ticket_++;
  tickets_[request.update.sequence] = ticket;
  TreeMasker::Request wanted = {
      .sequence = request.update.sequence,
      .grammar = request.adjustments.grammar,
      .output = OutputOf(request, held),
      .tree = request.tree,
      .prunes = !job->rule->second->needs().draft_distributions};
  masker_->Mask(std::move(wanted),
                [this, ticket, job = std::move(job)](
                    absl::StatusOr<MaskedTree> masked) mutable {
                  executor_.Post([this, ticket, job = std::move(job),
                                  masked = std::move(masked)]() mutable {
                    OnMasks(std::move(job), ticket, std::move(masked));
                  });
                });
}

void MaskDesk::OnMasks(std::unique_ptr<Job> job, uint64_t ticket,
                       absl::StatusOr<MaskedTree> masked) {
  const SequenceId id = job->request.update.sequence;
  const auto latest = tickets_.find(id);
  if (latest == tickets_.end() || latest->second != ticket) {
    // The masks may have been made after the sequence was forgotten.
    if (latest == tickets_.end()) masker_->Forget(id);
    std::move(job->done)(
        absl::CancelledError("the sequence was ended, or asked for again"));
    return;
  }
  tickets_.erase(latest);
  if (!masked.ok()) {
    std::move(job->done)(masked.status());
    return;
  }
  job->masked = *std::move(masked);
  on_masked_(std::move(job));
}

void MaskDesk::Forget(SequenceId sequence) {
  tickets_.erase(sequence);
  if (masker_) masker_->Forget(sequence);
}

void MaskDesk::Stop() {
  if (masker_) masker_->Stop();
}

}  // namespace espalier::verifier
