#include "coordinator/decode_round.h"

#include <algorithm>
#include <utility>

namespace espalier::coordinator {

DecodeRound::DecodeRound(Options options)
    : options_(std::move(options)),
      features_(options_.target, options_.max_feature_bytes),
      fanout_(options_.scope, options_.drafters,
              options_.verifier.model.vocab_size, &features_),
      verifier_(options_.verifier) {}

void DecodeRound::Run(const Session& session, Then then) {
  ++round_;
  result_ = {};
  then_ = std::move(then);
  const DraftBudget budget = BudgetFor(session);
  if (budget.max_nodes == 0) {
    tree_ = TokenTree::RootOnly(session.last_token());
    Verify(session);
    return;
  }
  const absl::Time now = options_.scope->Now();
  fanout_.Collect(
      session, round_, budget,
      std::min(now + options_.draft_timeout, options_.verifier.deadline),
      [this, &session, budget, now](DraftFanout::Drafts drafts) {
        OnDrafts(session, budget, now, std::move(drafts));
      });
}

// The bonus token takes one of the tokens that are left.
DraftBudget DecodeRound::BudgetFor(const Session& session) const {
  const int64_t max_depth =
      std::min(options_.budget.max_depth, session.num_left() - 1);
  if (max_depth == 0) return {};
  return {.max_nodes = options_.budget.max_nodes, .max_depth = max_depth};
}

void DecodeRound::OnDrafts(const Session& session, DraftBudget budget,
                           absl::Time asked, DraftFanout::Drafts drafts) {
  const absl::Time drafted = options_.scope->Now();
  tree_ = options_.policy->Merge(session.last_token(), drafts.trees,
                                 budget.max_nodes);
  result_.degraded = drafts.degraded;
  result_.draft_wait = drafted - asked;
  result_.merge = options_.scope->Now() - drafted;
  Verify(session);
}

void DecodeRound::Verify(const Session& session) {
  verifier_.Verify(
      session, round_, tree_, features_.Request(),
      [this, &session](absl::StatusOr<VerifierLink::Verified> verified) {
        OnVerified(session, std::move(verified));
      });
}

void DecodeRound::OnVerified(const Session& session,
                             absl::StatusOr<VerifierLink::Verified> verified) {
  Then then = std::move(then_);
  if (!verified.ok()) {
    std::move(then)(verified.status());
    return;
  }
  result_.verdict = std::move(verified->verdict);
  result_.round_trip = verified->round_trip;
  result_.tree = &tree_;
  // All but the bonus token were in the pass.
  const int64_t computed =
      session.length() + static_cast<int64_t>(result_.verdict.path.size());
  features_.Add(result_.verdict.features, computed);
  std::move(then)(std::move(result_));
}

void DecodeRound::EndSequence(SequenceId sequence) {
  fanout_.EndSequence(sequence);
  verifier_.EndSequence(sequence);
}

}  // namespace espalier::coordinator
