#include "coordinator/peers/drafter_link.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/speculation/stale_base.h"

namespace espalier::coordinator {
namespace {

// The mean time of a level below the first; zero: there was none.
absl::Duration FurtherLevel(absl::Span<const absl::Duration> levels) {
  if (levels.size() < 2) return absl::ZeroDuration();
  absl::Duration sum;
  for (absl::Duration level : levels.subspan(1)) sum += level;
  return sum / static_cast<int64_t>(levels.size() - 1);
}

}  // namespace

ProposeRequest DrafterLink::Ask(const Session& session, uint64_t round,
                                DraftBudget budget, FeatureRows features,
                                StoredFeatures stored) {
  ESPALIER_CHECK(may_ask());
  arrived_.reset();
  return Request(
      session, {.round = round, .root = session.last_token(), .budget = budget},
      std::move(features), std::move(stored));
}

ProposeRequest DrafterLink::AskLookahead(const Session& session, uint64_t round,
                                         DraftBudget budget,
                                         FeatureRows features,
                                         std::vector<TokenId> lookahead,
                                         StoredFeatures stored) {
  ESPALIER_CHECK(may_ask() && !lookahead.empty());
  const TokenId root = lookahead.back();
  return Request(session,
                 {.round = round,
                  .root = root,
                  .budget = budget,
                  .lookahead = std::move(lookahead)},
                 std::move(features), std::move(stored));
}

ProposeRequest DrafterLink::Request(const Session& session, Pending pending,
                                    FeatureRows features,
                                    StoredFeatures stored) {
  was_asked_ = true;
  ++ticket_;
  pending.committed_length = session.length();
  pending.features_end = features_end_;
  pending.ranks_end = ranks_end_;
  if (!features.empty()) pending.features_end = features.end_position();
  if (!stored.empty()) pending.features_end = stored.end_position();
  pending_ = std::move(pending);
  return {.update = session.UpdateFrom(held_length_, pending_->round),
          .budget = pending_->budget,
          .features = std::move(features),
          .stored = std::move(stored),
          .lookahead = pending_->lookahead};
}

void DrafterLink::AddRanks(const RankLog& log, ProposeRequest& request) {
  ESPALIER_CHECK(pending_.has_value());
  request.ranks = log.From(ranks_end_);
  pending_->ranks_end = log.end();
}

std::optional<LookaheadOutcome> DrafterLink::ResolveLookahead(
    const Session& session, uint64_t round) {
  const bool is_undone = pending_ && !pending_->lookahead.empty();
  if (is_undone) pending_.reset();
  const std::vector<Ahead> drafted = std::exchange(lookahead_, {});
  for (const Ahead& ahead : drafted) {
    if (auto tree = ahead.AfterLookahead(session)) {
      tree_ = *std::move(tree);
      tree_round_ = round;
      arrived_ = {&tree_, session.length()};
      return LookaheadOutcome::kHit;
    }
  }
  if (is_undone) return LookaheadOutcome::kWasted;
  if (drafted.empty()) return std::nullopt;
  return LookaheadOutcome::kMiss;
}

std::optional<TokenTree> DrafterLink::Ahead::AfterLookahead(
    const Session& session) const {
  const auto emitted = session.tokens().subspan(committed_length);
  if (emitted.size() != lookahead.size() + 1 ||
      emitted.first(lookahead.size()) != lookahead) {
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
  if (reply.ok()) {
    answer.compute_time = reply->compute_time;
    answer.level_time = FurtherLevel(reply->level_times);
  }
  answer.outcome = reply.ok()
                       ? ReceiveTree(*std::move(reply), asked, vocab_size)
                       : ReceiveError(reply.status(), asked);
  if (answer.outcome == DraftOutcome::kMalformed) Quarantine();
  return answer;
}

DraftOutcome DrafterLink::ReceiveTree(Proposal proposal, const Pending& asked,
                                      int64_t vocab_size) {
  const bool took_features = !proposal.lacks_features;
  const DraftOutcome outcome = TakeTree(std::move(proposal), asked, vocab_size);
  if (outcome != DraftOutcome::kMalformed) {
    held_length_ = asked.committed_length;
    ranks_end_ = asked.ranks_end;
    if (took_features) features_end_ = asked.features_end;
    if (asked.lookahead.empty()) arrived_ = {&tree_, asked.committed_length};
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

// A drafter that sent an invalid tree is not trusted any more.
DraftOutcome DrafterLink::TakeTree(Proposal proposal, const Pending& asked,
                                   int64_t vocab_size) {
  if (quarantined_ || !asked.Fits(proposal, vocab_size)) {
    return DraftOutcome::kMalformed;
  }
  const bool empty = proposal.tree.num_nodes() == 1;
  if (!asked.lookahead.empty()) {
    lookahead_.push_back({.committed_length = asked.committed_length,
                          .lookahead = asked.lookahead,
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
// the update. Sending it again is right in both cases: a receiver drops the
// tokens that it holds beyond the base.
DraftOutcome DrafterLink::ReceiveError(const absl::Status& status,
                                       const Pending& asked) {
  if (const auto held_length = HeldLength(status)) {
    if (*held_length > asked.committed_length) return DraftOutcome::kMalformed;
    held_length_ = *held_length;
    features_end_ = std::min(features_end_, held_length_);
    return DraftOutcome::kStale;
  }
  if (absl::IsDataLoss(status)) return DraftOutcome::kMalformed;
  // The drafter would not understand the next request either.
  if (absl::IsInvalidArgument(status)) quarantined_ = true;
  return DraftOutcome::kError;
}

}  // namespace espalier::coordinator
