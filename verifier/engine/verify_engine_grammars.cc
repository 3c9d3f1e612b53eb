#include <algorithm>
#include <utility>

#include "verifier/engine/verify_engine.h"

// Requests with a grammar, before they are admitted.

namespace espalier::verifier {

// REQUIRES: the request passed the checks of its admission.
void VerifyEngine::AskForMasks(std::unique_ptr<Job> job,
                               const Session* session) {
  const VerifyRequest& request = job->request;
  const SequenceUpdate& update = request.update;
  std::vector<TokenId> output;
  if (session != nullptr) {
    output.assign(session->tokens.begin(),
                  session->tokens.begin() + update.base_length);
  }
  output.insert(output.end(), update.new_tokens.begin(),
                update.new_tokens.end());
  output.erase(output.begin(),
               output.begin() + std::min(std::ssize(output),
                                         request.adjustments.prompt_length));
  ChooseRule(*job);
  const uint64_t ticket = next_masking_++;
  masking_[update.sequence] = ticket;
  TreeMasker::Request wanted = {
      .sequence = update.sequence,
      .grammar = request.adjustments.grammar,
      .output = std::move(output),
      .tree = request.tree,
      .prunes = !job->rule->second->needs().draft_distributions};
  options_.grammars->Mask(
      std::move(wanted), [this, ticket, job = std::move(job)](
                             absl::StatusOr<MaskedTree> masked) mutable {
        executor_->Post([this, ticket, job = std::move(job),
                         masked = std::move(masked)]() mutable {
          OnMasks(std::move(job), ticket, std::move(masked));
        });
      });
}

void VerifyEngine::OnMasks(std::unique_ptr<Job> job, uint64_t ticket,
                           absl::StatusOr<MaskedTree> masked) {
  const SequenceId id = job->request.update.sequence;
  const auto latest = masking_.find(id);
  if (latest == masking_.end() || latest->second != ticket) {
    if (latest == masking_.end() && !sessions_.contains(id)) {
      options_.grammars->Forget(id);
    }
    std::move(job->done)(
        absl::CancelledError("the sequence was ended, or asked for again"));
    return;
  }
  masking_.erase(latest);
  if (!masked.ok()) {
    std::move(job->done)(masked.status());
    return;
  }
  job->masked = *std::move(masked);
  Admit(std::move(job));
}

}  // namespace espalier::verifier
