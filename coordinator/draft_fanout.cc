#include "coordinator/draft_fanout.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "coordinator/accepted_length.h"
#include "coordinator/likely_leaves.h"

namespace espalier::coordinator {
namespace {

// The operator's word comes first.
DraftCall::Attention AttentionFor(const DrafterPeer& peer,
                                  const DraftCall& call) {
  if (peer.duty.role == DrafterRole::kOff) return DraftCall::Attention::kNone;
  if (peer.duty.role == DrafterRole::kShadow) {
    return DraftCall::Attention::kShadow;
  }
  return call.attention;
}

}  // namespace

DraftFanout::DraftFanout(const ExecutorScope* scope,
                         std::vector<DrafterPeer*> drafters, int64_t vocab_size,
                         FeatureLog* features)
    : scope_(*scope), vocab_size_(vocab_size), features_(*features) {
  for (DrafterPeer* peer : drafters) branches_.push_back({.peer = peer});
}

void DraftFanout::Collect(const Session& session, uint64_t round,
                          DraftBudget budget, absl::Span<const DraftCall> calls,
                          absl::Time deadline, Then then) {
  ESPALIER_CHECK(then_ == nullptr);
  round_ = round;
  deadline_ = deadline;
  committed_length_ = session.length();
  wanted_ = saw_answer_ = saw_malformed_ = saw_late_ = false;
  for (Branch& branch : branches_) {
    // Also of those that are not asked yet: without the prompt's features a
    // head would have nothing to show when it is.
    if (branch.peer->duty.role != DrafterRole::kOff) {
      features_.Want(WantedBy(branch));
    }
    branch.attention = DraftCall::Attention::kNone;
    branch.foreseen = TakeForeseen(branch, session);
    branch.used = false;
    branch.waited.reset();
    branch.in_vain = false;
    branch.compute = absl::ZeroDuration();
  }
  CollectMore(session, budget, calls, std::move(then));
}

void DraftFanout::CollectMore(const Session& session, DraftBudget budget,
                              absl::Span<const DraftCall> calls, Then then) {
  ESPALIER_CHECK(then_ == nullptr);
  then_ = std::move(then);
  for (int i = 0; i < num_drafters(); ++i) {
    if (branches_[i].attention == DraftCall::Attention::kNone) {
      Call(i, session, budget, calls[i]);
    }
  }
  if (num_awaited_ == 0) {
    Finish();
  } else {
    WaitFurther();
  }
}

void DraftFanout::Call(int index, const Session& session, DraftBudget budget,
                       const DraftCall& call) {
  Branch& branch = branches_[index];
  branch.attention = AttentionFor(*branch.peer, call);
  if (branch.attention == DraftCall::Attention::kNone) return;
  wanted_ |= branch.attention == DraftCall::Attention::kAwaited;
  if (branch.foreseen) {
    branch.waited = absl::ZeroDuration();
    saw_answer_ = true;
  } else if (branch.link.may_ask()) {
    Ask(index, session, budget, call);
  } else if (!branch.link.quarantined()) {
    branch.peer->metrics->Count(DraftOutcome::kSkipped);
    saw_late_ = true;
  }
}

// Whether it need not be asked: its tree is there.
bool DraftFanout::TakeForeseen(Branch& branch, const Session& session) {
  const auto foresight = branch.link.Foresee(session, round_);
  if (foresight) branch.peer->metrics->Count(*foresight);
  return foresight == Foresight::kHit;
}

void DraftFanout::Ask(int index, const Session& session, DraftBudget budget,
                      const DraftCall& call) {
  Branch& branch = branches_[index];
  branch.awaited = branch.attention == DraftCall::Attention::kAwaited &&
                   branch.peer->health.worth_waiting_for();
  if (branch.awaited) ++num_awaited_;
  branch.patience = call.patience;
  branch.sent = scope_.Now();
  branch.deadline = deadline_;
  const std::optional<DrafterInfo> info = branch.peer->info();
  branch.site = info ? info->site : 0;
  ProposeRequest request =
      branch.link.Ask(session, round_, budget, NewFeatures(branch));
  const uint64_t ticket = branch.link.ticket();
  branch.peer->endpoint->Propose(
      std::move(request), deadline_,
      scope_.Listen<Proposal>([this, index, round = round_](Proposal proposal) {
        OnPartial(index, round, std::move(proposal));
      }),
      scope_.Reply<Proposal>(
          [this, index, ticket](absl::StatusOr<Proposal> reply) {
            OnReply(index, ticket, std::move(reply));
          }));
}

FeatureContract DraftFanout::WantedBy(const Branch& branch) {
  const std::optional<DrafterInfo> info = branch.peer->info();
  return info ? info->features : FeatureContract();
}

// Those that it may lack.
FeatureRows DraftFanout::NewFeatures(Branch& branch) {
  FeatureRows features =
      features_.From(branch.link.features_end(), WantedBy(branch));
  branch.peer->metrics->feature_bytes.Increment(
      static_cast<double>(features.num_bytes()));
  return features;
}

void DraftFanout::DraftAhead(const Session& session, const TokenTree& tree,
                             DraftBudget budget, const Spare& spare) {
  guesses_.clear();
  ahead_budget_ = budget;
  spare_until_ = scope_.Now() + spare.time;
  for (int i = 0; i < num_drafters(); ++i) {
    if (!CanDraftAhead(branches_[i], spare.site)) continue;
    if (guesses_.empty()) guesses_ = LikelyLeaves(tree);
    branches_[i].num_guesses = 0;
    AskAhead(i, session);
  }
}

bool DraftFanout::CanDraftAhead(const Branch& branch,
                                uint64_t verifier_site) const {
  if (branch.attention != DraftCall::Attention::kAwaited ||
      !branch.peer->health.worth_waiting_for()) {
    return false;
  }
  const std::optional<DrafterInfo> info = branch.peer->info();
  return info && info->drafts_ahead &&
         (info->site == 0 || info->site != verifier_site);
}

// For the next guess, if that will be done in time.
void DraftFanout::AskAhead(int index, const Session& session) {
  Branch& branch = branches_[index];
  if (branch.num_guesses == guesses_.size() || !branch.link.may_ask() ||
      scope_.Now() + branch.last_wait > spare_until_) {
    return;
  }
  ProposeRequest request =
      branch.link.AskAhead(session, round_ + 1, ahead_budget_,
                           NewFeatures(branch), guesses_[branch.num_guesses++]);
  const uint64_t ticket = branch.link.ticket();
  branch.peer->endpoint->Propose(
      std::move(request), spare_until_, /*on_partial=*/nullptr,
      scope_.Reply<Proposal>(
          [this, index, &session, ticket](absl::StatusOr<Proposal> reply) {
            OnAhead(index, session, ticket, std::move(reply));
          }));
}

void DraftFanout::OnAhead(int index, const Session& session, uint64_t ticket,
                          absl::StatusOr<Proposal> reply) {
  Branch& branch = branches_[index];
  if (!branch.link.expects(ticket)) return;
  if (reply.ok()) DropUntrustedLaws(*branch.peer, *reply);
  const DrafterLink::Answer answer =
      branch.link.Receive(std::move(reply), vocab_size_);
  if (answer.outcome == DraftOutcome::kMalformed ||
      answer.outcome == DraftOutcome::kError) {
    branch.peer->metrics->Count(answer.outcome);
    ++branch.troubles.errors;
    if (answer.unavailable) branch.peer->health.OnUnavailable();
    return;
  }
  AskAhead(index, session);
}

// For those that are left, as long as they may together be worth.
void DraftFanout::WaitFurther() {
  absl::Duration patience;
  for (const Branch& branch : branches_) {
    if (branch.awaited) patience += branch.patience;
  }
  scope_.PostAt(std::min(deadline_, scope_.Now() + patience),
                [this, wait = ++wait_] {
                  if (then_ != nullptr && wait == wait_) OnDeadline();
                });
}

// The round stands still for the answer all the same.
void DraftFanout::OnPartial(int index, uint64_t round, Proposal proposal) {
  if (then_ == nullptr || round != round_) return;  // too late to be of use
  Branch& branch = branches_[index];
  DropUntrustedLaws(*branch.peer, proposal);
  const DraftOutcome outcome =
      branch.link.ReceivePartial(std::move(proposal), vocab_size_);
  if (outcome == DraftOutcome::kMalformed) {
    saw_malformed_ = true;
    StopWaiting(branch);
  } else if (outcome == DraftOutcome::kUsed) {
    branch.peer->health.OnAnswer();
  }
}

void DraftFanout::OnReply(int index, uint64_t ticket,
                          absl::StatusOr<Proposal> reply) {
  Branch& branch = branches_[index];
  if (!branch.link.expects(ticket)) return;
  const absl::Time now = scope_.Now();
  if (reply.ok()) DropUntrustedLaws(*branch.peer, *reply);
  const DrafterLink::Answer answer =
      branch.link.Receive(std::move(reply), vocab_size_);
  const DraftOutcome outcome = Classify(answer);
  branch.last_wait = now - branch.sent;
  branch.waited = branch.last_wait;
  branch.in_vain = false;
  branch.compute =
      std::clamp(answer.compute_time, absl::ZeroDuration(), branch.last_wait);
  branch.peer->metrics->Count(outcome);
  branch.peer->metrics->rtt_seconds.Observe(
      absl::ToDoubleSeconds(branch.last_wait));
  branch.peer->metrics->wire_seconds.Observe(
      absl::ToDoubleSeconds(branch.last_wait - branch.compute));
  if (outcome == DraftOutcome::kMalformed || outcome == DraftOutcome::kError) {
    ++branch.troubles.errors;
  }
  if (answer.unavailable) {
    branch.peer->health.OnUnavailable();
  } else if (now <= branch.deadline) {
    branch.peer->health.OnAnswer();
  }
  if (then_ == nullptr || answer.round != round_) return;
  saw_answer_ |=
      outcome == DraftOutcome::kUsed || outcome == DraftOutcome::kEmpty;
  saw_malformed_ |= outcome == DraftOutcome::kMalformed;
  StopWaiting(branch);
}

// A wrong law would change the text under a rule that reads it.
void DraftFanout::DropUntrustedLaws(const DrafterPeer& peer,
                                    Proposal& proposal) {
  if (peer.trusted || !proposal.tree.claims_laws()) return;
  proposal.tree.DropLaws();
  peer.metrics->untrusted_laws.Increment();
}

void DraftFanout::StopWaiting(Branch& branch) {
  if (!branch.awaited) return;
  branch.awaited = false;
  if (--num_awaited_ == 0) {
    Finish();
  } else {
    WaitFurther();
  }
}

// A good tree whose round has gone on is of no use.
DraftOutcome DraftFanout::Classify(const DrafterLink::Answer& answer) const {
  const bool is_late = then_ == nullptr || answer.round != round_;
  const bool is_tree = answer.outcome == DraftOutcome::kUsed ||
                       answer.outcome == DraftOutcome::kEmpty;
  return is_late && is_tree ? DraftOutcome::kLate : answer.outcome;
}

void DraftFanout::OnDeadline() {
  saw_late_ = true;
  for (Branch& branch : branches_) {
    if (!branch.awaited) continue;
    branch.awaited = false;
    branch.waited = scope_.Now() - branch.sent;
    branch.in_vain = true;
    if (TreeOf(branch) != nullptr) {
      branch.peer->metrics->Count(DraftOutcome::kPartial);
      continue;
    }
    ++branch.troubles.timeouts;
    branch.peer->metrics->Count(DraftOutcome::kTimeout);
    branch.peer->health.OnTimeout();
  }
  num_awaited_ = 0;
  Finish();
}

void DraftFanout::Finish() {
  Drafts drafts;
  for (int i = 0; i < num_drafters(); ++i) {
    Branch& branch = branches_[i];
    const TokenTree* tree = TreeOf(branch);
    // Also one that was drafted ahead, before the operator's word.
    const bool asked = branch.attention == DraftCall::Attention::kAsked ||
                       branch.attention == DraftCall::Attention::kAwaited;
    if (tree == nullptr || !asked) continue;
    branch.used = true;
    drafts.trees.push_back({.drafter = i,
                            .tree = tree,
                            .peer = branch.peer->index,
                            .weight = branch.peer->duty.weight,
                            .trusted = branch.peer->trusted});
  }
  if (drafts.trees.empty() && wanted_) drafts.degraded = WhyDegraded();
  std::exchange(then_, nullptr)(std::move(drafts));
}

std::vector<DrafterReturn> DraftFanout::Returns(const Session& session) {
  std::vector<DrafterReturn> returns;
  for (Branch& branch : branches_) {
    DrafterReturn& r = returns.emplace_back();
    r.attention = branch.attention;
    r.waited = branch.waited;
    r.in_vain = branch.in_vain;
    r.compute = branch.compute;
    r.site = branch.site;
    r.active = branch.peer->duty.role == DrafterRole::kActive;
    if (const auto arrived = branch.link.TakeArrived()) {
      branch.judge.Add(*arrived->tree, arrived->committed_length);
      if (!branch.used && arrived->tree->num_nodes() > 1 &&
          arrived->committed_length == committed_length_) {
        r.late = arrived->tree;
      }
    }
    for (int64_t length : branch.judge.Settle(session.tokens())) {
      branch.peer->metrics->accepted_length.Observe(
          static_cast<double>(length));
      if (branch.attention != DraftCall::Attention::kAwaited) {
        r.accepted = length;
      }
    }
    const TokenTree* const used = branch.used ? TreeOf(branch) : nullptr;
    if (used != nullptr) {
      r.accepted =
          AcceptedLength(*used, session.tokens().subspan(committed_length_));
    }
  }
  return returns;
}

const TokenTree* DraftFanout::TreeOf(const Branch& branch) const {
  const TokenTree* tree = branch.link.TreeOf(round_);
  return tree != nullptr && tree->num_nodes() > 1 ? tree : nullptr;
}

std::optional<DegradedReason> DraftFanout::WhyDegraded() const {
  if (saw_answer_) return std::nullopt;
  if (saw_malformed_) return DegradedReason::kMalformed;
  if (saw_late_) return DegradedReason::kAllLate;
  return DegradedReason::kNoDrafter;
}

void DraftFanout::EndSequence(SequenceId sequence) {
  for (Branch& branch : branches_) {
    if (branch.link.was_asked()) branch.peer->endpoint->EndSequence(sequence);
  }
}

}  // namespace espalier::coordinator
