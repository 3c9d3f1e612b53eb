#include "coordinator/decode_round.h"

#include <algorithm>
#include <utility>

#include "coordinator/accepted_length.h"
#include "coordinator/token_trie.h"

namespace espalier::coordinator {

DecodeRound::DecodeRound(Options options)
    : options_(std::move(options)),
      features_(options_.target, options_.max_feature_bytes),
      fanout_(options_.scope, options_.drafters,
              options_.verifier.model.vocab_size, &features_),
      verifier_(options_.verifier),
      calibration_(&options_.record->kind(options_.greedy).calibration) {}

void DecodeRound::Run(const Session& session, Then then) {
  const absl::Time now = options_.scope->Now();
  if (round_ == 0) {
    Begin();
  } else {
    Learn(session);
  }
  ++round_;
  started_ = now;
  committed_length_ = session.length();
  result_ = {};
  then_ = std::move(then);
  budget_ = BudgetFor(session);
  result_.budget_nodes = budget_.max_nodes;
  if (budget_.max_nodes == 0) {
    tree_ = TokenTree::RootOnly(session.last_token());
    Verify(session);
    return;
  }
  fanout_.Collect(
      session, round_, ShareOf(budget_), FirstCalls(),
      std::min(now + options_.draft_timeout, options_.verifier.deadline),
      [this, &session, now](DraftFanout::Drafts drafts) {
        if (control_) {
          CallFurther(session, now, std::move(drafts));
        } else {
          OnDrafts(session, now, std::move(drafts));
        }
      });
}

void DecodeRound::Begin() {
  if (const auto verifier = options_.verifier.peer->info()) {
    pass_costs_ = verifier->pass_costs;
    verifier_site_ = verifier->site;
  }
  if (!options_.adaptive) return;
  std::vector<int> peers;
  for (const DrafterPeer* drafter : options_.drafters) {
    peers.push_back(drafter->index);
  }
  control_.emplace(options_.record, options_.greedy, std::move(peers),
                   &pass_costs_);
}

void DecodeRound::Learn(const Session& session) {
  const auto emitted = session.tokens().subspan(committed_length_);
  std::vector<DrafterReturn> returns = fanout_.Returns(session);
  std::vector<DraftedTree> seen = trees_;
  if (control_) {
    // As the round saw it: before calibration learns from it.
    const std::vector<TreeGain> gains = Gains(emitted);
    for (int i = 0; i < fanout_.num_drafters(); ++i) {
      returns[i].gain = gains[i];
      if (returns[i].late == nullptr || !returns[i].active) continue;
      returns[i].gain = GainOfLate(LateTree(i, returns[i]), emitted);
      seen.push_back(LateTree(i, returns[i]));
    }
  }
  trees_.clear();
  if (!seen.empty()) {
    calibration_.Learn(TokenTrie(tree_.tokens[0], seen), emitted);
  }
  if (!control_) return;
  control_->Learn({.returns = returns,
                   .num_tokens = static_cast<int64_t>(emitted.size()),
                   .duration = options_.scope->Now() - started_});
}

// The bonus token takes one of the tokens that are left.
DraftBudget DecodeRound::BudgetFor(const Session& session) const {
  const int64_t max_depth =
      std::min(options_.budget.max_depth, session.num_left() - 1);
  if (max_depth == 0) return {};
  const int64_t limit = options_.budget.max_nodes;
  return {.max_nodes = control_ ? control_->NodesToDraft(limit) : limit,
          .max_depth = max_depth};
}

DraftBudget DecodeRound::ShareOf(DraftBudget budget) const {
  const int64_t drafters = std::ssize(options_.drafters);
  if (options_.reads_laws && options_.policy->keeps_laws() && drafters > 1) {
    budget.max_nodes = std::max<int64_t>(1, budget.max_nodes / drafters);
  }
  return budget;
}

std::vector<DraftCall> DecodeRound::FirstCalls() const {
  if (control_) return control_->QuickCalls();
  return std::vector<DraftCall>(options_.drafters.size());
}

void DecodeRound::CallFurther(const Session& session, absl::Time asked,
                              DraftFanout::Drafts drafts) {
  trees_ = std::move(drafts.trees);
  DraftBudget further = budget_;
  further.max_nodes = control_->FurtherNodes(budget_.max_nodes);
  fanout_.CollectMore(
      session, ShareOf(further),
      control_->FurtherCalls(Merge(session.last_token(), trees_)),
      [this, &session, asked](DraftFanout::Drafts all) {
        OnDrafts(session, asked, std::move(all));
      });
}

TokenTree DecodeRound::Merge(TokenId root,
                             std::vector<DraftedTree> trees) const {
  return options_.policy->Merge({.root = root,
                                 .trees = trees,
                                 .max_nodes = budget_.max_nodes,
                                 .calibration = &calibration_});
}

// Of what trees bring beside others too much is foretold, as each of them is
// overrated where it is chosen: what came true is believed. Where there are no
// others, what was foretold, which varies less.
std::vector<TreeGain> DecodeRound::Gains(
    absl::Span<const TokenId> emitted) const {
  std::vector<TreeGain> gains(options_.drafters.size());
  if (trees_.empty()) return gains;
  const TokenId root = tree_.tokens[0];
  const TokenTree merged = Merge(root, trees_);
  if (trees_.size() == 1) {
    const double alone = GainAlone(trees_[0], merged, emitted);
    gains[trees_[0].drafter] = {.alone = alone, .beside = alone};
    return gains;
  }
  const double all = control_->GainIn(emitted, merged);
  for (size_t i = 0; i < trees_.size(); ++i) {
    std::vector<DraftedTree> others = trees_;
    others.erase(others.begin() + static_cast<int64_t>(i));
    gains[trees_[i].drafter] = {
        .alone = GainAlone(trees_[i], Merge(root, {trees_[i]}), emitted),
        .beside = all - control_->GainIn(emitted, Merge(root, others))};
  }
  return gains;
}

// As foretold, which varies less than what came true. Next to nothing is
// foretold of a drafter that has long been wrong, so there the next token
// counts.
double DecodeRound::GainAlone(const DraftedTree& tree, const TokenTree& merged,
                              absl::Span<const TokenId> emitted) const {
  const double foretold = control_->Gain(merged);
  constexpr double kNextToNothing = 0.1;
  if (foretold > kNextToNothing) return foretold;
  return control_->GainOfANode(AcceptedLength(*tree.tree, emitted) > 0);
}

DraftedTree DecodeRound::LateTree(int drafter, const DrafterReturn& r) const {
  const DrafterPeer& peer = fanout_.drafter(drafter);
  return {.drafter = drafter,
          .tree = r.late,
          .peer = peer.index,
          .weight = peer.duty.weight,
          .trusted = peer.trusted};
}

TreeGain DecodeRound::GainOfLate(const DraftedTree& late,
                                 absl::Span<const TokenId> emitted) const {
  const TokenId root = tree_.tokens[0];
  const double alone = GainAlone(late, Merge(root, {late}), emitted);
  if (trees_.empty()) return {.alone = alone, .beside = alone};
  std::vector<DraftedTree> all = trees_;
  all.push_back(late);
  return {.alone = alone,
          .beside = control_->Gain(Merge(root, std::move(all))) -
                    control_->Gain(Merge(root, trees_))};
}

void DecodeRound::OnDrafts(const Session& session, absl::Time asked,
                           DraftFanout::Drafts drafts) {
  const absl::Time drafted = options_.scope->Now();
  trees_ = std::move(drafts.trees);
  tree_ = Merge(session.last_token(), trees_);
  if (control_) control_->Cut(tree_);
  result_.degraded = drafts.degraded;
  result_.draft_wait = drafted - asked;
  result_.merge = options_.scope->Now() - drafted;
  Verify(session);
}

void DecodeRound::Verify(const Session& session) {
  const uint64_t round = round_;
  verifier_.Verify(
      session, round_, tree_, features_.Request(),
      [this, &session](absl::StatusOr<VerifierLink::Verified> verified) {
        OnVerified(session, std::move(verified));
      });
  if (options_.draft_ahead && then_ != nullptr && round_ == round) {
    DraftAhead(session);
  }
}

// For the tokens that are left behind the guess and a bonus token, of which the
// tree has one more level.
void DecodeRound::DraftAhead(const Session& session) {
  const int64_t next_left = session.num_left() - 1;
  const int64_t max_depth = std::min(options_.budget.max_depth + 1, next_left);
  if (budget_.max_nodes == 0 || max_depth < 2) return;
  fanout_.DraftAhead(
      session, tree_,
      {.max_nodes = 2 * budget_.max_nodes, .max_depth = max_depth},
      {.time = last_round_trip_, .site = verifier_site_});
}

void DecodeRound::OnVerified(const Session& session,
                             absl::StatusOr<VerifierLink::Verified> verified) {
  Then then = std::move(then_);
  if (!verified.ok()) {
    std::move(then)(verified.status());
    return;
  }
  result_.verdict = std::move(verified->verdict);
  result_.round_trip = last_round_trip_ = verified->round_trip;
  result_.tree = &tree_;
  if (!result_.verdict.pass_costs.empty()) {
    pass_costs_ = result_.verdict.pass_costs;
  }
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
