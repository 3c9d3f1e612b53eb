#include "coordinator/drafter_link.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/spec/stale_base.h"

namespace espalier::coordinator {

ProposeRequest DrafterLink::Ask(const Session& session, uint64_t round,
                                DraftBudget budget, FeatureRows features) {
  ESPALIER_CHECK(may_ask());
  arrived_.reset();
  return Request(
      session, {.round = round, .root = session.last_token(), .budget = budget},
      std::move(features));
}

ProposeRequest DrafterLink::AskAhead(const Session& session, uint64_t round,
                                     DraftBudget budget, FeatureRows features,
                                     std::vector<TokenId> guess) {
  ESPALIER_CHECK(may_ask() && !guess.empty());
  return Request(session,
                 {.round = round,
                  .root = guess.back(),
                  .budget = budget,
                  .guess = std::move(guess)},
                 std::move(features));
}

ProposeRequest DrafterLink::Request(const Session& session, Pending pending,
                                    FeatureRows features) {
  was_asked_ = true;
  ++ticket_;
  pending.committed_length = session.length();
  pending.features_end =
      features.empty() ? features_end_ : features.end_position();
  pending_ = std::move(pending);
  return {.update = session.UpdateFrom(held_length_, pending_->round),
          .budget = pending_->budget,
          .features = std::move(features),
          .guess = pending_->guess};
}

std::optional<Foresight> DrafterLink::Foresee(const Session& session,
                                              uint64_t round) {
  const bool is_undone = pending_ && !pending_->guess.empty();
  if (is_undone) pending_.reset();
  const std::vector<Ahead> drafted = std::exchange(ahead_, {});
  for (const Ahead& ahead : drafted) {
    if (auto tree = ahead.BehindGuess(session)) {
      tree_ = *std::move(tree);
      tree_round_ = round;
      arrived_ = {&tree_, session.length()};
      return Foresight::kHit;
    }
  }
  if (is_undone) return Foresight::kWasted;
  if (drafted.empty()) return std::nullopt;
  return Foresight::kMiss;
}

std::optional<TokenTree> DrafterLink::Ahead::BehindGuess(
    const Session& session) const {
  const auto emitted = session.tokens().subspan(committed_length);
  if (emitted.size() != guess.size() + 1 ||
      emitted.first(guess.size()) != guess) {
    return std::nullopt;
  }
  const int32_t root = tree.ChildWith(0, emitted.back());
  if (root == TokenTree::kNoChild) return std::nullopt;
  TokenTree rest = tree.Subtree(root);
  if (rest.num_nodes() == 1) return std::nullopt;
  return rest;
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
  const Pending asked = *std::exchange(pending_, std::nullopt);
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
    if (asked.guess.empty()) arrived_ = {&tree_, asked.committed_length};
  }
  return outcome;
}

bool DrafterLink::Pending::Fits(const Proposal& proposal,
                                int64_t vocab_size) const {
  const TokenTree::Limits limits = {.max_nodes = budget.max_nodes,
                                    .max_depth = budget.max_depth,
                                    .vocab_size = vocab_size};
  return proposal.round == round &&
         proposal.committed_length == committed_length &&
         proposal.tree.Validate(limits).ok() && proposal.tree.tokens[0] == root;
}

// Who lied is not believed any more.
DraftOutcome DrafterLink::TakeTree(Proposal proposal, const Pending& asked,
                                   int64_t vocab_size) {
  if (quarantined_ || !asked.Fits(proposal, vocab_size)) {
    return DraftOutcome::kMalformed;
  }
  const bool empty = proposal.tree.num_nodes() == 1;
  if (!asked.guess.empty()) {
    ahead_.push_back({.committed_length = asked.committed_length,
                      .guess = asked.guess,
                      .tree = std::move(proposal.tree)});
  } else {
    tree_ = std::move(proposal.tree);
    tree_round_ = asked.round;
  }
  return empty ? DraftOutcome::kEmpty : DraftOutcome::kUsed;
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
