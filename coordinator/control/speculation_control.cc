#include "coordinator/control/speculation_control.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "coordinator/control/accepted_length.h"

namespace espalier::coordinator {
namespace {

using Attention = DraftCall::Attention;

constexpr double kMemory = 64;       // rounds
constexpr double kPriorRounds = 16;  // weight of other sessions' experience

std::vector<DrafterValue> Recall(const SpeculationRecord::Kind& kind,
                                 absl::Span<const int> peers) {
  std::vector<DrafterValue> prior;
  for (int peer : peers) {
    DrafterValue& value = prior.emplace_back(kind.values[peer]);
    value.alone = value.alone.Recalled(kMemory, kPriorRounds);
    value.beside = value.beside.Recalled(kMemory, kPriorRounds);
    value.seconds = value.seconds.Recalled(kMemory, kPriorRounds);
    value.shared_seconds = value.shared_seconds.Recalled(kMemory, kPriorRounds);
  }
  return prior;
}

std::vector<ProbeBudget*> ProbesOf(SpeculationRecord& record,
                                   absl::Span<const int> peers) {
  std::vector<ProbeBudget*> probes;
  for (int peer : peers) probes.push_back(&record.probes[peer]);
  return probes;
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

// Cost of the nodes' rows, in tokens.
double CostOf(int64_t nodes, const RowCost& cost) {
  const absl::Duration more = PassTime(cost.costs, cost.other_rows + nodes) -
                              PassTime(cost.costs, cost.other_rows);
  return cost.tokens_per_second * absl::ToDoubleSeconds(more);
}

// Whether the round gives information about the drafter's value.
bool SaysSomething(const DrafterReturn& r) {
  return r.attention == Attention::kAwaited || r.late != nullptr;
}

Throughput Recall(Throughput throughput) {
  throughput.tokens = throughput.tokens.Recalled(kMemory, kPriorRounds);
  throughput.seconds = throughput.seconds.Recalled(kMemory, kPriorRounds);
  return throughput;
}

}  // namespace

SpeculationControl::SpeculationControl(SpeculationRecord* record, bool greedy,
                                       std::vector<int> peers,
                                       const PassCosts* costs)
    : record_(*record),
      kind_(record->kind(greedy)),
      peers_(std::move(peers)),
      costs_(*costs),
      choice_(Recall(kind_, peers_), ProbesOf(*record, peers_)),
      throughput_(Recall(kind_.throughput)),
      nodes_(kind_.nodes.Recalled(kMemory, kPriorRounds)) {
  ++record_.num_running;
}

SpeculationControl::~SpeculationControl() { --record_.num_running; }

double SpeculationControl::tokens_per_second() const {
  const absl::Duration plain = PassTime(costs_, other_rows());
  return std::max(
      throughput_.tokens_per_second(),
      plain > absl::ZeroDuration() ? 1 / absl::ToDoubleSeconds(plain) : 0);
}

DraftCall SpeculationControl::Call(int drafter, Attention attention) const {
  return {.attention = attention,
          .patience = choice_.Patience(drafter, tokens_per_second())};
}

std::vector<DraftCall> SpeculationControl::QuickCalls() const {
  std::vector<DraftCall> calls;
  for (int i = 0; i < num_drafters(); ++i) {
    Attention attention = Attention::kNone;
    if (choice_.asks(i) && choice_.IsQuick(i, time_price())) {
      if (choice_.IsWorthwhile(i, /*nothing_else=*/1, time_price())) {
        attention = Attention::kAwaited;
      } else if (choice_.IsDue(i, time_price())) {
        attention = Attention::kAsked;
      }
    }
    calls.push_back(Call(i, attention));
  }
  return calls;
}

std::vector<DraftCall> SpeculationControl::FurtherCalls(
    const TokenTree& at_hand) {
  const double nothing = ChanceOfNothing(at_hand);
  std::vector<DraftCall> calls;
  for (int i = 0; i < num_drafters(); ++i) {
    const bool asked =
        choice_.asks(i) && choice_.IsWorthwhile(i, nothing, time_price());
    const bool probed = choice_.Probes(i, time_price());
    if (probed) choice_.BeginProbe(i, time_price());
    calls.push_back(Call(i, asked    ? Attention::kAwaited
                            : probed ? Attention::kAsked
                                     : Attention::kNone));
  }
  return calls;
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

DrafterChoice::TimePrice SpeculationControl::time_price() const {
  return {tokens_per_second(), others()};
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
         CostOf(nodes, cost);
}

double SpeculationControl::GainOfANode(bool accepted) const {
  return (accepted ? 1 : 0) - CostOf(/*nodes=*/1, row_cost());
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

// In the first round drafters ask for the prompt's features.
bool SpeculationControl::Rests() {
  if (first_round_) return false;
  if (rest_ == 0) rest_ = choice_.RoundsToRest(time_price());
  if (rest_ == 0) return false;
  --rest_;
  ObserveNodes(0);
  return true;
}

// The first round includes the prompt's pass, which does not depend on any
// drafter, and drafters that wait for its features. It says nothing about later
// rounds.
void SpeculationControl::Learn(const Round& round) {
  if (std::exchange(first_round_, false)) return;
  const double tokens = static_cast<double>(round.num_tokens);
  const double seconds = absl::ToDoubleSeconds(round.duration);
  for (Throughput* throughput : {&throughput_, &kind_.throughput}) {
    throughput->tokens.Observe(tokens);
    throughput->seconds.Observe(seconds);
  }
  for (int peer : peers_) record_.probes[peer].Earn(tokens, num_drafters());
  if (round.returns.empty()) {
    choice_.LearnRest();
  } else {
    choice_.Learn(round.returns, time_price());
  }
  for (size_t i = 0; i < peers_.size(); ++i) {
    const DrafterValue& found = choice_.values()[i];
    DrafterValue& known = kind_.values[peers_[i]];
    if (!round.returns.empty() && SaysSomething(round.returns[i])) {
      known = found;
    }
    known.asked = found.asked;
    known.probe = found.probe;
  }
}

}  // namespace espalier::coordinator
