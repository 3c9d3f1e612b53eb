#include "coordinator/control/speculation_control.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "coordinator/control/accepted_length.h"

namespace espalier::coordinator {
namespace {

constexpr double kMemory = 64;       // rounds
constexpr double kPriorRounds = 16;  // weight of other sessions' experience
// A round that took longer, in rounds of plain decoding, was held up.
constexpr double kMaxRounds = 10;

std::vector<DrafterValue> Recall(const SpeculationRecord::Kind& kind,
                                 absl::Span<const int> peers) {
  std::vector<DrafterValue> prior;
  for (int peer : peers) prior.push_back(kind.values[peer].Recalled());
  return prior;
}

// Probability that the target emits none of the root's children. log_probs are
// log-probabilities of being emitted.
double ChanceOfNothing(const TokenTree& tree) {
  double nothing = 1;
  for (int64_t i = 1; i < tree.num_nodes(); ++i) {
    if (tree.parents[i] != 0) continue;
    nothing -= std::exp(static_cast<double>(tree.log_probs[i]));
  }
  return std::max(0.0, nothing);
}

struct Room {
  int64_t fewest;
  double factor;
};

int64_t WithRoom(double usual, const Room& room, int64_t limit) {
  const double nodes = std::ceil(room.factor * usual);
  return std::min(limit, std::max(room.fewest, static_cast<int64_t>(nodes)));
}

PayingNodes NodesThatPay(const TokenTree& tree, const RowCost& cost) {
  return NodesThatPay(absl::MakeConstSpan(tree.log_probs).subspan(1), cost);
}

// Whether the round gives information about the drafter's value.
bool SaysSomething(const DrafterReturn& r) {
  return r.attention == DraftCall::Attention::kAwaited || r.late != nullptr;
}

bool AnyAsked(absl::Span<const DrafterReturn> returns) {
  return std::any_of(returns.begin(), returns.end(),
                     [](const DrafterReturn& r) { return r.was_asked(); });
}

}  // namespace

SpeculationControl::SpeculationControl(SpeculationRecord* record, bool greedy,
                                       std::vector<int> peers,
                                       const PassCosts* costs, bool explores)
    : record_(*record),
      kind_(record->kind(greedy)),
      peers_(std::move(peers)),
      costs_(*costs),
      explores_(explores),
      policy_(Recall(kind_, peers_), &record->trials),
      throughput_(kMemory),
      plain_(kind_.plain.Recalled()),
      nodes_(kind_.nodes.Recalled(kMemory, kPriorRounds)) {
  ++record_.num_running;
}

SpeculationControl::~SpeculationControl() { --record_.num_running; }

double SpeculationControl::PassSeconds() const {
  return absl::ToDoubleSeconds(PassTime(costs_, other_rows()));
}

double SpeculationControl::LonePassSeconds() const {
  return absl::ToDoubleSeconds(PassTime(costs_, 1));
}

double SpeculationControl::OthersSeconds() const {
  return PassSeconds() - LonePassSeconds();
}

absl::Duration SpeculationControl::PlainRound() const {
  return absl::Seconds(plain_.Seconds(LonePassSeconds()) + OthersSeconds());
}

double SpeculationControl::tokens_per_second() const {
  const double plain = absl::ToDoubleSeconds(PlainRound());
  return std::max(throughput_.tokens_per_second(), plain > 0 ? 1 / plain : 0);
}

// In the first round the session asks for the prompt's features.
bool SpeculationControl::Rests(int64_t length) {
  if (first_round_) return false;
  policy_.BeginRound({.tokens_per_second = tokens_per_second(),
                      .others = others(),
                      .row = CostOfNextRow()},
                     length);
  if (explores_) {
    rests_ = peers_.empty();
  } else {
    rests_ = plain_.IsStale(LonePassSeconds());
    policy_.ConsiderTrial();
    saves_ = ledger_.is_behind() && !policy_.is_trying();
    rests_ |= policy_.Rests(/*cheap_only=*/saves_);
  }
  if (rests_ && !explores_) ObserveNodes(0);
  return rests_;
}

std::vector<DraftCall> SpeculationControl::FirstCalls() const {
  if (first_round_ || rests_ || explores_) return policy_.NoCalls();
  return policy_.FirstCalls();
}

std::vector<DraftCall> SpeculationControl::FurtherCalls(
    const TokenTree& at_hand) {
  if (first_round_ || rests_) return policy_.NoCalls();
  if (explores_) return policy_.AllCalls();
  if (saves_) return policy_.NoCalls();
  return policy_.FurtherCalls(ChanceOfNothing(at_hand));
}

int64_t SpeculationControl::NodesToDraft(int64_t limit) const {
  return WithRoom(nodes_.mean(), {.fewest = 8, .factor = 1.5}, limit);
}

int64_t SpeculationControl::FurtherNodes(int64_t limit) const {
  return WithRoom(nodes_.mean(), {.fewest = 4, .factor = 1.25}, limit);
}

double SpeculationControl::others() const {
  return static_cast<double>(record_.num_running - 1);
}

int64_t SpeculationControl::other_rows() const {
  return 1 + static_cast<int64_t>(others() * (1 + record_.nodes.mean()));
}

// Returns the cost of a row beyond those of the usual tree, in tokens.
double SpeculationControl::CostOfNextRow() const {
  const RowCost cost = row_cost();
  const int64_t usual = std::llround(nodes_.mean());
  return CostOfNodes(usual + 1, cost) - CostOfNodes(usual, cost);
}

RowCost SpeculationControl::row_cost() const {
  return {.costs = costs_,
          .other_rows = other_rows(),
          .tokens_per_second = tokens_per_second() * (1 + others())};
}

double SpeculationControl::Gain(const TokenTree& tree) const {
  return NodesThatPay(tree, row_cost()).gain;
}

double SpeculationControl::GainIn(absl::Span<const TokenId> emitted,
                                  TokenTree tree) const {
  const RowCost cost = this->row_cost();
  const int64_t nodes = NodesThatPay(tree, cost).nodes;
  tree.Cut(nodes + 1);
  if (!emitted.empty()) emitted.remove_suffix(1);
  return static_cast<double>(AcceptedLength(tree, emitted)) -
         CostOfNodes(nodes, cost);
}

double SpeculationControl::GainOfANode(bool accepted) const {
  return (accepted ? 1 : 0) - CostOfNodes(/*nodes=*/1, row_cost());
}

void SpeculationControl::Cut(TokenTree& tree) {
  const int64_t nodes = NodesThatPay(tree, row_cost()).nodes;
  ObserveNodes(nodes);
  tree.Cut(nodes + 1);
}

void SpeculationControl::ObserveNodes(int64_t nodes) {
  for (RunningMean* mean : {&nodes_, &kind_.nodes, &record_.nodes}) {
    mean->Observe(static_cast<double>(nodes));
  }
}

// The first round includes the prompt's pass. It says nothing about later
// rounds.
absl::Duration SpeculationControl::Learn(const Round& round) {
  if (std::exchange(first_round_, false)) return absl::ZeroDuration();
  const double tokens = static_cast<double>(round.num_tokens);
  const double plain = absl::ToDoubleSeconds(PlainRound());
  double seconds = absl::ToDoubleSeconds(round.duration);
  if (plain > 0) seconds = std::min(seconds, kMaxRounds * plain);
  throughput_.tokens.Observe(tokens);
  throughput_.seconds.Observe(seconds);
  ledger_.Emitted(tokens);
  double won = 0, other = 0;
  if (AnyAsked(round.returns)) {
    const double rest = absl::ToDoubleSeconds(
        absl::Seconds(seconds) - round.draft_wait -
        (round.pass > absl::ZeroDuration()
             ? round.pass
             : PassTime(costs_, other_rows() + round.num_nodes)));
    plain_.Fade(rest);
    kind_.plain.Fade(rest);
    if (plain > 0) {
      other = rest - plain_.RestSeconds();
      won = ledger_.Enter(tokens, seconds, plain);
    }
  } else {
    const double took = absl::ToDoubleSeconds(round.pass);
    plain_.Observe(
        seconds - OthersSeconds(),
        {.expected = LonePassSeconds(),
         .took = took > 0 ? took - OthersSeconds() : LonePassSeconds()});
    kind_.plain = plain_;
  }
  const double catch_up = LearnDrafters(round, tokens, other);
  if (plain > 0) ledger_.Advance(catch_up / plain);
  return absl::Seconds(won);
}

// Returns the seconds that networks took to catch up with the text.
double SpeculationControl::LearnDrafters(const Round& round, double tokens,
                                         double other_seconds) {
  const absl::Span<const DrafterReturn> returns = round.returns;
  const double catch_up =
      policy_.Learn(returns, {.tokens = tokens,
                              .handling = absl::ToDoubleSeconds(round.handling),
                              .other = other_seconds});
  for (size_t i = 0; i < peers_.size(); ++i) {
    DrafterValue& known = kind_.values[peers_[i]];
    if (!returns.empty() && SaysSomething(returns[i])) {
      known = policy_.value(static_cast<int>(i));
    } else {
      known.Fade();
    }
  }
  return catch_up;
}

}  // namespace espalier::coordinator
