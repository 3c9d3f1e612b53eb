#include "coordinator/rounds/decode_round.h"

#include <algorithm>
#include <utility>

#include "coordinator/merge/token_trie.h"
#include "coordinator/rounds/round_credit.h"

namespace espalier::coordinator {

DecodeRound::DecodeRound(const Environment* environment,
                         const ExecutorScope* scope, const OutputPlan* output)
    : environment_(*environment),
      scope_(*scope),
      output_(*output),
      plan_(output->plan),
      greedy_(plan_.session.sampling.greedy()),
      features_(plan_.target, environment_.feature_budget),
      fanout_(scope, output_.drafters, plan_.model.vocab_size, &features_,
              [this](absl::Span<const DraftedTree> trees) {
                return plan_.policy->HasEnough(InputOf(trees));
              }),
      verifier_(scope, environment_.verifier,
                {.model = plan_.model,
                 .rule = plan_.rule,
                 .deadline = output_.deadline,
                 .priority = plan_.priority,
                 .share = output_.share}),
      calibration_(&environment_.record->kind(greedy_).calibration) {}

void DecodeRound::Run(const Session& session, Then then) {
  const absl::Time now = scope_.Now();
  if (round_ == 0) Begin();
  if (verified_) Learn(session);
  ++round_;
  started_ = now;
  committed_length_ = session.length();
  root_ = session.last_token();
  result_ = {};
  then_ = std::move(then);
  budget_ = BudgetFor(session);
  result_.max_nodes = budget_.max_nodes;
  rests_ = Rests();
  result_.rested = rests_ && control_;
  if (rests_) {
    tree_ = TokenTree::RootOnly(session.last_token());
    Verify(session);
    return;
  }
  if (const auto verifier = environment_.verifier->info()) {
    features_.ring().SetRing(verifier->ring);
  }
  fanout_.Collect(session, round_, ShareOf(budget_), FirstCalls(),
                  std::min(now + environment_.draft_timeout, output_.deadline),
                  [this, &session, now](DraftFanout::Drafts drafts) {
                    if (control_) {
                      CallFurther(session, now, std::move(drafts));
                    } else {
                      OnDrafts(session, now, std::move(drafts));
                    }
                  });
}

void DecodeRound::Begin() {
  if (const auto verifier = environment_.verifier->info()) {
    pass_costs_ = verifier->pass_costs;
    verifier_cpu_group_ = verifier->cpu_group;
  }
  if (!plan_.adaptive) return;
  std::vector<int> peers;
  for (const DrafterPeer* drafter : output_.drafters) {
    peers.push_back(drafter->index);
  }
  control_.emplace(environment_.record, greedy_, std::move(peers), &pass_costs_,
                   output_.explores);
}

// Shadows are asked in every round.
bool DecodeRound::Rests() {
  if (!control_) return budget_.max_nodes == 0;
  for (int i = 0; i < fanout_.num_drafters(); ++i) {
    control_->SetActive(
        i, fanout_.drafter(i).settings.role == DrafterRole::kActive);
  }
  const bool rests = control_->Rests(committed_length_);
  return budget_.max_nodes == 0 || (rests && !fanout_.HasShadow());
}

void DecodeRound::Learn(const Session& session) {
  verified_ = false;
  const auto emitted = session.tokens().subspan(committed_length_);
  if (rests_) return LearnFrom(emitted, /*returns=*/{});
  const absl::Time begin = scope_.Now();
  std::vector<DrafterReturn> returns = fanout_.Returns(session);
  for (DrafterReturn& r : returns) {
    r.shares_verifier_cores =
        r.cpu_group != 0 && r.cpu_group == verifier_cpu_group_;
  }
  std::vector<DraftedTree> seen = trees_;
  if (control_) AssignCredit(emitted, returns, seen);
  trees_.clear();
  if (!seen.empty()) calibration_.Learn(TokenTrie(root_, seen), emitted);
  handling_ += scope_.Now() - begin;
  LearnFrom(emitted, returns);
}

void DecodeRound::LearnFrom(absl::Span<const TokenId> emitted,
                            absl::Span<const DrafterReturn> returns) {
  if (!control_) return;
  const auto tokens = static_cast<int64_t>(emitted.size());
  const absl::Duration won =
      control_->Learn({.returns = returns,
                       .num_tokens = tokens,
                       .duration = scope_.Now() - started_ - held_up_,
                       .draft_wait = draft_wait_,
                       .handling = handling_,
                       .pass = pass_,
                       .num_nodes = tree_.num_nodes() - 1});
  uint64_t asked = 0;
  for (size_t i = 0; i < returns.size(); ++i) {
    if (returns[i].was_asked()) asked |= uint64_t{1} << i;
  }
  if (asked != 0) balance_[asked] += won;
}

void DecodeRound::AssignCredit(absl::Span<const TokenId> emitted,
                               std::vector<DrafterReturn>& returns,
                               std::vector<DraftedTree>& seen) const {
  RoundCredit credit({.policy = *plan_.policy,
                      .control = *control_,
                      .input = InputOf(trees_),
                      .emitted = emitted});
  for (size_t i = 0; i < trees_.size(); ++i) {
    returns[trees_[i].drafter].gain = credit.Of(i);
  }
  for (int i = 0; i < fanout_.num_drafters(); ++i) {
    if (returns[i].late == nullptr || !returns[i].active) continue;
    seen.push_back(fanout_.Drafted(i, returns[i].late));
    returns[i].gain = credit.OfLate(seen.back());
  }
}

// The bonus token takes one of the remaining tokens.
DraftBudget DecodeRound::BudgetFor(const Session& session) const {
  const int64_t max_depth =
      std::min(plan_.budget.max_depth, session.num_left() - 1);
  if (max_depth == 0) return {};
  const DraftBudget budget = plan_.budget.WithDepth(max_depth);
  if (!control_) return budget;
  return budget.WithNodes(control_->NodesToDraft(budget.max_nodes));
}

DraftBudget DecodeRound::ShareOf(DraftBudget budget) const {
  const int64_t drafters = std::ssize(output_.drafters);
  if (plan_.reads_draft_distributions && plan_.policy->keeps_distributions() &&
      drafters > 1) {
    return budget.WithNodes(std::max<int64_t>(1, budget.max_nodes / drafters));
  }
  return budget;
}

std::vector<DraftCall> DecodeRound::FirstCalls() const {
  if (control_) return control_->FirstCalls();
  return std::vector<DraftCall>(output_.drafters.size());
}

void DecodeRound::CallFurther(const Session& session, absl::Time asked,
                              DraftFanout::Drafts drafts) {
  merged_ = plan_.policy->Merge(InputOf(drafts.trees));
  const DraftBudget further =
      budget_.WithNodes(control_->FurtherNodes(budget_.max_nodes));
  fanout_.CollectMore(session, ShareOf(further),
                      control_->FurtherCalls(merged_),
                      [this, &session, asked](DraftFanout::Drafts all) {
                        OnDrafts(session, asked, std::move(all));
                      });
}

MergeInput DecodeRound::InputOf(absl::Span<const DraftedTree> trees) const {
  return {.root = root_,
          .trees = trees,
          .max_nodes = budget_.max_nodes,
          .calibration = &calibration_};
}

void DecodeRound::OnDrafts(const Session& session, absl::Time asked,
                           DraftFanout::Drafts drafts) {
  const absl::Time drafted = scope_.Now();
  trees_ = std::move(drafts.trees);
  if (!drafts.unchanged) merged_ = plan_.policy->Merge(InputOf(trees_));
  tree_ = merged_;
  if (control_) control_->Cut(tree_);
  result_.degraded = drafts.degraded;
  result_.draft_wait = draft_wait_ = drafted - asked;
  result_.merge = scope_.Now() - drafted;
  handling_ = result_.merge;
  Verify(session);
}

void DecodeRound::Verify(const Session& session) {
  const uint64_t round = round_;
  verifier_.Verify(
      session, round_, tree_,
      features_.Request(!rests_ && fanout_.needs_features(), session.length()),
      // Ranks of the prompt come with the first round or never.
      rests_ && round_ > 1 ? RanksRequest() : fanout_.WantedRanks(greedy_),
      [this, &session](absl::StatusOr<VerifierLink::Verified> verified) {
        OnVerified(session, std::move(verified));
      });
  if (environment_.draft_ahead && !rests_ && then_ != nullptr &&
      round_ == round) {
    DraftLookahead(session);
  }
}

// The budget covers the tokens that remain after the lookahead and a bonus
// token; the tree has one more level for that bonus token.
void DecodeRound::DraftLookahead(const Session& session) {
  const int64_t next_left = session.num_left() - 1;
  const int64_t max_depth = std::min(plan_.budget.max_depth + 1, next_left);
  if (max_depth < 2) return;
  fanout_.DraftLookahead(
      session, tree_,
      budget_.WithNodes(2 * budget_.max_nodes).WithDepth(max_depth),
      {.time = last_round_trip_, .cpu_group = verifier_cpu_group_});
}

void DecodeRound::OnVerified(const Session& session,
                             absl::StatusOr<VerifierLink::Verified> verified) {
  Then then = std::move(then_);
  if (!verified.ok()) {
    std::move(then)(verified.status());
    return;
  }
  verified_ = true;
  held_up_ = HeldUp(*verified);
  pass_ = verified->verify_result.timings.forward;
  result_.verify_result = std::move(verified->verify_result);
  result_.round_trip = last_round_trip_ = verified->round_trip;
  result_.tree = &tree_;
  if (!result_.verify_result.pass_costs.empty()) {
    pass_costs_ = result_.verify_result.pass_costs;
  }
  // The pass computed all tokens but the bonus token.
  const int64_t computed =
      session.length() +
      static_cast<int64_t>(result_.verify_result.path.size());
  features_.Add(result_.verify_result.features, computed);
  features_.ring().Add(result_.verify_result.stored, computed);
  features_.ranks().Add(result_.verify_result.ranks);
  std::move(then)(std::move(result_));
}

// The verifier measures with its own clock.
absl::Duration DecodeRound::HeldUp(const VerifierLink::Verified& verified) {
  const VerifyTimings& timings = verified.verify_result.timings;
  return verified.failed +
         std::clamp(timings.room + timings.measuring + timings.prefill,
                    absl::ZeroDuration(), verified.round_trip);
}

absl::Duration DecodeRound::PlainRound() const {
  return control_ ? control_->PlainRound() : absl::ZeroDuration();
}

void DecodeRound::End(const Session& session) {
  if (verified_ && control_) Learn(session);
  fanout_.EndSequence(session.id());
  verifier_.EndSequence(session.id());
}

}  // namespace espalier::coordinator
