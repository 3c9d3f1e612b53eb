#include "coordinator/drafter_link.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/spec/stale_base.h"

namespace espalier::coordinator {

ProposeRequest DrafterLink::Ask(const Session& session, uint64_t round,
                                DraftBudget budget, FeatureRows features) {
  ESPALIER_CHECK(may_ask());
  was_asked_ = true;
  arrived_.reset();
  pending_ = {.round = round,
              .committed_length = session.length(),
              .features_end =
                  features.empty() ? features_end_ : features.end_position(),
              .root = session.last_token(),
              .budget = budget};
  return {.update = session.UpdateFrom(held_length_, round),
          .budget = budget,
          .features = std::move(features)};
}

DraftOutcome DrafterLink::ReceivePartial(Proposal proposal,
                                         int64_t vocab_size) {
  ESPALIER_CHECK(pending_.has_value());
  const DraftOutcome outcome =
      TakeTree(std::move(proposal), *pending_, vocab_size);
  if (outcome == DraftOutcome::kMalformed) Quarantine();
  return outcome;
}

DrafterLink::Answer DrafterLink::Receive(absl::StatusOr<Proposal> reply,
                                         int64_t vocab_size) {
  ESPALIER_CHECK(pending_.has_value());
  const Pending asked = *pending_;
  pending_.reset();
  Answer answer = {.round = asked.round,
                   .unavailable = absl::IsUnavailable(reply.status())};
  if (reply.ok()) answer.compute_time = reply->compute_time;
  answer.outcome = reply.ok()
                       ? ReceiveTree(*std::move(reply), asked, vocab_size)
                       : ReceiveError(reply.status(), asked);
  if (answer.outcome == DraftOutcome::kMalformed) Quarantine();
  return answer;
}

DraftOutcome DrafterLink::ReceiveTree(Proposal proposal, const Pending& asked,
                                      int64_t vocab_size) {
  const DraftOutcome outcome = TakeTree(std::move(proposal), asked, vocab_size);
  if (outcome != DraftOutcome::kMalformed) {
    held_length_ = asked.committed_length;
    features_end_ = asked.features_end;
    arrived_ = {&tree_, asked.committed_length};
  }
  return outcome;
}

// Who lied is not believed any more.
DraftOutcome DrafterLink::TakeTree(Proposal proposal, const Pending& asked,
                                   int64_t vocab_size) {
  const TokenTree::Limits limits = {.max_nodes = asked.budget.max_nodes,
                                    .max_depth = asked.budget.max_depth,
                                    .vocab_size = vocab_size};
  if (quarantined_ || proposal.round != asked.round ||
      proposal.committed_length != asked.committed_length ||
      !proposal.tree.Validate(limits).ok() ||
      proposal.tree.tokens[0] != asked.root) {
    return DraftOutcome::kMalformed;
  }
  tree_ = std::move(proposal.tree);
  tree_round_ = asked.round;
  return tree_.num_nodes() > 1 ? DraftOutcome::kUsed : DraftOutcome::kEmpty;
}

std::optional<DrafterLink::Arrived> DrafterLink::TakeArrived() {
  return std::exchange(arrived_, std::nullopt);
}

void DrafterLink::Quarantine() {
  quarantined_ = true;
  tree_round_ = 0;
}

// After an error without a held length the drafter may or may not have applied
// the update. Sending it again is right in both cases: what a receiver holds
// beyond the base it drops.
DraftOutcome DrafterLink::ReceiveError(const absl::Status& status,
                                       const Pending& asked) {
  if (const auto held_length = HeldLength(status)) {
    if (*held_length > asked.committed_length) return DraftOutcome::kMalformed;
    held_length_ = *held_length;
    features_end_ = std::min(features_end_, held_length_);
    return DraftOutcome::kStale;
  }
  // It will not understand the next request any better.
  if (absl::IsInvalidArgument(status)) quarantined_ = true;
  return DraftOutcome::kError;
}

}  // namespace espalier::coordinator
