#include "coordinator/peers/draft_fanout.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "coordinator/control/accepted_length.h"
#include "coordinator/control/likely_leaves.h"

namespace espalier::coordinator {
namespace {

// The operator's setting overrides the call.
DraftCall::Attention AttentionFor(const DrafterPeer& peer,
                                  const DraftCall& call) {
  if (peer.settings.role == DrafterRole::kOff)
    return DraftCall::Attention::kNone;
  if (peer.settings.role == DrafterRole::kShadow) {
    return DraftCall::Attention::kShadow;
  }
  return call.attention;
}

}  // namespace

DraftFanout::DraftFanout(const ExecutorScope* scope,
                         std::vector<DrafterPeer*> drafters, int64_t vocab_size,
                         FeatureLog* features, Enough enough)
    : scope_(*scope),
      vocab_size_(vocab_size),
      features_(*features),
      enough_(std::move(enough)) {
  for (DrafterPeer* peer : drafters) branches_.push_back({.peer = peer});
}

void DraftFanout::Collect(const Session& session, uint64_t round,
                          DraftBudget budget, absl::Span<const DraftCall> calls,
                          absl::Time deadline, Then then) {
  ESPALIER_CHECK(then_ == nullptr);
  round_ = round;
  began_ = scope_.Now();
  deadline_ = deadline;
  num_trees_.reset();
  committed_length_ = session.length();
  wanted_ = saw_answer_ = saw_malformed_ = saw_late_ = needs_features_ = false;
  for (Branch& branch : branches_) {
    branch.round = {.from_lookahead = TakeLookahead(branch, session)};
  }
  WantFeatures();
  features_.Release(FeaturesHeldByAll());
  features_.ranks().Release(RanksHeldByAll());
  CollectMore(session, budget, calls, std::move(then));
}

void DraftFanout::CollectMore(const Session& session, DraftBudget budget,
                              absl::Span<const DraftCall> calls, Then then) {
  ESPALIER_CHECK(then_ == nullptr);
  then_ = std::move(then);
  for (int i = 0; i < num_drafters(); ++i) {
    if (branches_[i].round.attention == DraftCall::Attention::kNone) {
      Call(i, session, budget, calls[i]);
    }
  }
  waited_ = num_awaited_ > 0;
  if (!waited_) {
    Finish();
  } else {
    WaitFurther();
  }
}

void DraftFanout::Call(int index, const Session& session, DraftBudget budget,
                       const DraftCall& call) {
  Branch& branch = branches_[index];
  branch.round.attention = AttentionFor(*branch.peer, call);
  if (branch.round.attention == DraftCall::Attention::kNone) return;
  if (!branch.round.sent_features.taps.empty()) {
    needs_features_ = true;
    if (features_.deferred()) {
      branch.round.attention = DraftCall::Attention::kNone;
      return;
    }
  }
  wanted_ |= branch.round.attention == DraftCall::Attention::kAwaited;
  if (branch.round.from_lookahead || branch.link.may_ask()) {
    branch.peer->metrics->asked_rounds.Increment();
  }
  if (branch.round.from_lookahead) {
    branch.round.waited = absl::ZeroDuration();
    saw_answer_ = true;
  } else if (branch.link.may_ask()) {
    Ask(index, session, budget, call);
  } else if (!branch.link.quarantined()) {
    branch.peer->metrics->Count(DraftOutcome::kSkipped);
    saw_late_ = true;
  }
}

bool DraftFanout::HasShadow() const {
  return std::any_of(branches_.begin(), branches_.end(), [](const Branch& b) {
    return b.peer->settings.role == DrafterRole::kShadow;
  });
}

// Takes a tree that was drafted ahead. True: the drafter need not be asked.
bool DraftFanout::TakeLookahead(Branch& branch, const Session& session) {
  const auto outcome = branch.link.ResolveLookahead(session, round_);
  if (outcome) branch.peer->metrics->Count(*outcome);
  return outcome == LookaheadOutcome::kHit;
}

void DraftFanout::Ask(int index, const Session& session, DraftBudget budget,
                      const DraftCall& call) {
  Branch& branch = branches_[index];
  const std::optional<DrafterInfo> info = branch.peer->info();
  branch.request = {
      .awaited = branch.round.attention == DraftCall::Attention::kAwaited &&
                 branch.peer->health.worth_waiting_for(),
      .patience = call.patience,
      .sent = scope_.Now(),
      .deadline = deadline_,
      .cpu_group = info ? info->cpu_group : 0};
  if (branch.request.awaited) ++num_awaited_;
  ProposeRequest request =
      branch.link.Ask(session, round_, budget.WithReach(call.least_reach),
                      NewFeatures(branch), NewStored(branch));
  request.prompt_length = session.prompt_length();
  if (info && info->needs_grammar) {
    request.grammar = session.adjustments().grammar;
  }
  if (branch.round.wants_ranks) {
    branch.link.AddRanks(features_.ranks(), request);
  }
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

void DraftFanout::DraftLookahead(const Session& session, const TokenTree& tree,
                                 DraftBudget budget, const Spare& spare) {
  lookaheads_.clear();
  lookahead_budget_ = budget;
  spare_until_ = scope_.Now() + spare.time;
  for (int i = 0; i < num_drafters(); ++i) {
    if (!CanLookAhead(branches_[i], spare.cpu_group)) continue;
    if (lookaheads_.empty()) lookaheads_ = LikelyLeaves(tree);
    branches_[i].num_lookaheads = 0;
    AskLookahead(i, session);
  }
}

bool DraftFanout::CanLookAhead(const Branch& branch,
                               uint64_t verifier_cpu_group) const {
  if (branch.round.attention != DraftCall::Attention::kAwaited ||
      !branch.peer->health.worth_waiting_for()) {
    return false;
  }
  const std::optional<DrafterInfo> info = branch.peer->info();
  return info && info->supports_lookahead &&
         (info->cpu_group == 0 || info->cpu_group != verifier_cpu_group);
}

// Asks for the next lookahead, if it should be done in time.
void DraftFanout::AskLookahead(int index, const Session& session) {
  Branch& branch = branches_[index];
  if (branch.num_lookaheads == lookaheads_.size() || !branch.link.may_ask() ||
      scope_.Now() + branch.last_wait > spare_until_) {
    return;
  }
  ProposeRequest request = branch.link.AskLookahead(
      session, round_ + 1, lookahead_budget_, NewFeatures(branch),
      lookaheads_[branch.num_lookaheads++], NewStored(branch));
  const uint64_t ticket = branch.link.ticket();
  branch.peer->endpoint->Propose(
      std::move(request), spare_until_, /*on_partial=*/nullptr,
      scope_.Reply<Proposal>(
          [this, index, &session, ticket](absl::StatusOr<Proposal> reply) {
            OnLookahead(index, session, ticket, std::move(reply));
          }));
}

void DraftFanout::OnLookahead(int index, const Session& session,
                              uint64_t ticket, absl::StatusOr<Proposal> reply) {
  Branch& branch = branches_[index];
  if (!branch.link.expects(ticket)) return;
  if (reply.ok()) {
    NoteLacks(*reply, branch);
    DropUntrustedDistributions(*branch.peer, *reply);
  }
  const DrafterLink::Answer answer =
      branch.link.Receive(std::move(reply), vocab_size_);
  if (answer.outcome == DraftOutcome::kMalformed ||
      answer.outcome == DraftOutcome::kError) {
    branch.peer->metrics->Count(answer.outcome);
    ++branch.troubles.errors;
    if (answer.unavailable) branch.peer->health.OnUnavailable();
    return;
  }
  AskLookahead(index, session);
}

// Waits for the remaining drafters, as long as their answers together may be
// worth.
void DraftFanout::WaitFurther() {
  absl::Duration patience;
  for (const Branch& branch : branches_) {
    if (branch.request.awaited) patience += branch.request.patience;
  }
  scope_.CancelTimer(wait_);
  wait_ = scope_.SetTimer(std::min(deadline_, scope_.Now() + patience),
                          [this] { OnDeadline(); });
}

// The round still waits for the complete answer.
void DraftFanout::OnPartial(int index, uint64_t round, Proposal proposal) {
  if (then_ == nullptr || round != round_) return;  // too late to be of use
  Branch& branch = branches_[index];
  DropUntrustedDistributions(*branch.peer, proposal);
  const DraftOutcome outcome =
      branch.link.ReceivePartial(std::move(proposal), vocab_size_);
  if (outcome == DraftOutcome::kMalformed) {
    saw_malformed_ = true;
    StopWaiting(branch);
  } else if (outcome == DraftOutcome::kUsed) {
    branch.peer->health.OnAnswer();
    branch.round.arrived = scope_.Now() - began_;
    branch.round.whole = false;
    if (HasEnough()) GoOnWithoutTheRest();
  }
}

void DraftFanout::OnReply(int index, uint64_t ticket,
                          absl::StatusOr<Proposal> reply) {
  Branch& branch = branches_[index];
  if (!branch.link.expects(ticket)) return;
  const absl::Time now = scope_.Now();
  if (reply.ok()) {
    NoteLacks(*reply, branch);
    DropUntrustedDistributions(*branch.peer, *reply);
  }
  const DrafterLink::Answer answer =
      branch.link.Receive(std::move(reply), vocab_size_);
  const DraftOutcome outcome = Classify(answer);
  branch.last_wait = now - branch.request.sent;
  branch.round.waited = branch.last_wait;
  branch.round.in_vain = false;
  if (answer.round == round_) {
    branch.round.arrived = now - began_;
    branch.round.whole = true;
  }
  branch.round.compute =
      std::clamp(answer.compute_time, absl::ZeroDuration(), branch.last_wait);
  branch.round.level =
      std::clamp(answer.level_time, absl::ZeroDuration(), branch.round.compute);
  branch.peer->metrics->Count(outcome);
  branch.peer->metrics->rtt_seconds.Observe(
      absl::ToDoubleSeconds(branch.last_wait));
  branch.peer->metrics->wire_seconds.Observe(
      absl::ToDoubleSeconds(branch.last_wait - branch.round.compute));
  if (outcome == DraftOutcome::kMalformed || outcome == DraftOutcome::kError) {
    ++branch.troubles.errors;
  }
  if (answer.unavailable) {
    branch.peer->health.OnUnavailable();
    branch.peer->unreadable_ring = 0;  // the next process may read it
  } else if (now <= branch.request.deadline) {
    branch.peer->health.OnAnswer();
  }
  if (then_ == nullptr || answer.round != round_) return;
  saw_answer_ |=
      outcome == DraftOutcome::kUsed || outcome == DraftOutcome::kEmpty;
  saw_malformed_ |= outcome == DraftOutcome::kMalformed;
  StopWaiting(branch);
}

// A wrong distribution would change the text under a rule that reads it.
void DraftFanout::DropUntrustedDistributions(const DrafterPeer& peer,
                                             Proposal& proposal) {
  if (peer.trusted || !proposal.tree.claims_distributions()) return;
  proposal.tree.DropDistributions();
  peer.metrics->untrusted_distributions.Increment();
}

void DraftFanout::StopWaiting(Branch& branch) {
  if (!branch.request.awaited) return;
  branch.request.awaited = false;
  if (--num_awaited_ == 0) {
    Finish();
  } else if (HasEnough()) {
    GoOnWithoutTheRest();
  } else {
    WaitFurther();
  }
}

bool DraftFanout::HasEnough() { return enough_ && enough_(Trees()); }

// The drafters that still owe a tree get no timeout counted.
void DraftFanout::GoOnWithoutTheRest() {
  for (Branch& branch : branches_) {
    if (!branch.request.awaited) continue;
    branch.request.awaited = false;
    branch.round.waited = scope_.Now() - branch.request.sent;
    branch.round.in_vain = true;
  }
  num_awaited_ = 0;
  Finish();
}

// A valid tree for a round that has gone on is late.
DraftOutcome DraftFanout::Classify(const DrafterLink::Answer& answer) const {
  const bool is_late = then_ == nullptr || answer.round != round_;
  const bool is_tree = answer.outcome == DraftOutcome::kUsed ||
                       answer.outcome == DraftOutcome::kEmpty;
  return is_late && is_tree ? DraftOutcome::kLate : answer.outcome;
}

void DraftFanout::OnDeadline() {
  saw_late_ = true;
  for (Branch& branch : branches_) {
    if (!branch.request.awaited) continue;
    branch.request.awaited = false;
    branch.round.waited = scope_.Now() - branch.request.sent;
    branch.round.in_vain = true;
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
  scope_.CancelTimer(wait_);
  Drafts drafts = {.trees = Trees()};
  for (const DraftedTree& tree : drafts.trees) {
    branches_[tree.drafter].round.used = true;
  }
  drafts.unchanged = !waited_ && drafts.trees.size() == num_trees_;
  num_trees_ = drafts.trees.size();
  if (drafts.trees.empty() && wanted_) drafts.degraded = WhyDegraded();
  std::exchange(then_, nullptr)(std::move(drafts));
}

std::vector<DraftedTree> DraftFanout::Trees() const {
  std::vector<DraftedTree> trees;
  for (int i = 0; i < num_drafters(); ++i) {
    const Branch& branch = branches_[i];
    const TokenTree* tree = TreeOf(branch);
    // A tree that was drafted ahead counts only if the drafter's role still
    // allows it.
    const bool asked = branch.round.attention == DraftCall::Attention::kAsked ||
                       branch.round.attention == DraftCall::Attention::kAwaited;
    if (tree != nullptr && asked) trees.push_back(Drafted(i, tree));
  }
  return trees;
}

DraftedTree DraftFanout::Drafted(int index, const TokenTree* tree) const {
  const Branch& branch = branches_[index];
  return {.drafter = index,
          .tree = tree,
          .peer = branch.peer->index,
          .weight = branch.peer->settings.weight,
          .trusted = branch.peer->trusted,
          .arrived = branch.round.arrived,
          .whole = branch.round.whole};
}

std::vector<DrafterReturn> DraftFanout::Returns(const Session& session) {
  std::vector<DrafterReturn> returns;
  for (Branch& branch : branches_) {
    DrafterReturn& r = returns.emplace_back();
    r.attention = branch.round.attention;
    r.waited = branch.round.waited;
    r.in_vain = branch.round.in_vain;
    r.compute = branch.round.compute;
    r.level = branch.round.level;
    r.cpu_group = branch.request.cpu_group;
    r.active = branch.peer->settings.role == DrafterRole::kActive;
    if (const auto arrived = branch.link.TakeArrived()) {
      branch.tracker.Add(*arrived->tree, arrived->committed_length);
      if (!branch.round.used && arrived->tree->num_nodes() > 1 &&
          arrived->committed_length == committed_length_) {
        r.late = arrived->tree;
      }
    }
    for (int64_t length : branch.tracker.Settle(session.tokens())) {
      branch.peer->metrics->accepted_length.Observe(
          static_cast<double>(length));
      if (branch.round.attention != DraftCall::Attention::kAwaited) {
        r.accepted = length;
      }
    }
    const TokenTree* const used = branch.round.used ? TreeOf(branch) : nullptr;
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
