#include "coordinator/speculation_control.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "coordinator/node_budget.h"

namespace espalier::coordinator {
namespace {

using Attention = DraftCall::Attention;

constexpr double kMemory = 16;       // rounds
constexpr double kPriorRounds = 4;   // that other sessions' experience is worth
constexpr int64_t kFewestNodes = 8;  // to draft
constexpr double kFirstNodes = 16;
constexpr double kRoomToGrow = 1.5;

std::vector<DraftWorth> Recall(const SpeculationRecord::Kind& kind,
                               absl::Span<const int> peers) {
  std::vector<DraftWorth> prior;
  for (int peer : peers) {
    DraftWorth& worth = prior.emplace_back(kind.worth[peer]);
    worth.tokens = worth.tokens.Recalled(kMemory, kPriorRounds);
    worth.foretold = worth.foretold.Recalled(kMemory, kPriorRounds);
    worth.seconds = worth.seconds.Recalled(kMemory, kPriorRounds);
  }
  return prior;
}

// That the target emits none of the root's children. log_probs: chances of
// being emitted.
double ChanceOfNothing(const TokenTree& tree) {
  double nothing = 1;
  for (int64_t i = 1; i < tree.num_nodes(); ++i) {
    if (tree.parents[i] != 0) continue;
    nothing -= std::exp(static_cast<double>(tree.log_probs[i]));
  }
  return std::max(0.0, nothing);
}

Pace Recall(Pace pace) {
  pace.tokens = pace.tokens.Recalled(kMemory, kPriorRounds);
  pace.seconds = pace.seconds.Recalled(kMemory, kPriorRounds);
  return pace;
}

}  // namespace

SpeculationControl::SpeculationControl(SpeculationRecord* record, bool greedy,
                                       std::vector<int> peers)
    : record_(*record),
      kind_(record->kind(greedy)),
      peers_(std::move(peers)),
      choice_(Recall(kind_, peers_)),
      pace_(Recall(kind_.pace)),
      nodes_(kMemory, kFirstNodes, 1) {
  ++record_.num_running;
}

SpeculationControl::~SpeculationControl() { --record_.num_running; }

double SpeculationControl::tokens_per_second() const {
  return pace_.tokens_per_second();
}

DraftCall SpeculationControl::Call(int drafter, Attention attention) const {
  return {.attention = attention,
          .patience = choice_.Patience(drafter, tokens_per_second())};
}

std::vector<DraftCall> SpeculationControl::QuickCalls() const {
  std::vector<DraftCall> calls;
  for (int i = 0; i < num_drafters(); ++i) {
    const bool asked =
        choice_.asks(i) && choice_.IsQuick(i, tokens_per_second());
    calls.push_back(Call(i, asked ? Attention::kAwaited : Attention::kNone));
  }
  return calls;
}

std::vector<DraftCall> SpeculationControl::FurtherCalls(
    const TokenTree& at_hand) const {
  const double nothing = ChanceOfNothing(at_hand);
  std::vector<DraftCall> calls;
  for (int i = 0; i < num_drafters(); ++i) {
    const bool asked = choice_.asks(i) &&
                       choice_.IsWorthwhile(i, nothing, tokens_per_second());
    calls.push_back(Call(i, asked              ? Attention::kAwaited
                            : choice_.probes() ? Attention::kAsked
                                               : Attention::kNone));
  }
  return calls;
}

int64_t SpeculationControl::NodesToDraft(int64_t limit) const {
  const int64_t usual =
      static_cast<int64_t>(std::ceil(kRoomToGrow * nodes_.mean()));
  return std::min(limit, std::max(kFewestNodes, usual));
}

void SpeculationControl::Cut(absl::Span<const PassCost> costs,
                             TokenTree& tree) {
  const double others = static_cast<double>(record_.num_running - 1);
  const RowPrice price = {
      .costs = costs,
      .other_rows =
          1 + static_cast<int64_t>(others * (1 + record_.nodes.mean())),
      .tokens_per_second = tokens_per_second() * (1 + others)};
  const int64_t nodes =
      NodesThatPay(absl::MakeConstSpan(tree.log_probs).subspan(1), price);
  nodes_.Observe(static_cast<double>(nodes));
  record_.nodes.Observe(static_cast<double>(nodes));
  tree.Cut(nodes + 1);
}

// The first round holds the prompt's pass, which nobody's choice changes, and
// drafters that wait for its features: it says nothing about those to come.
void SpeculationControl::Learn(const Round& round) {
  if (std::exchange(first_round_, false)) return;
  const double tokens = static_cast<double>(round.num_tokens);
  const double seconds = absl::ToDoubleSeconds(round.duration);
  for (Pace* pace : {&pace_, &kind_.pace}) {
    pace->tokens.Observe(tokens);
    pace->seconds.Observe(seconds);
  }
  choice_.Learn(round.returns, tokens_per_second());
  for (size_t i = 0; i < peers_.size(); ++i) {
    const DraftWorth& found = choice_.worth()[i];
    DraftWorth& known = kind_.worth[peers_[i]];
    known.asked = found.asked;
    if (!round.returns[i].accepted) continue;
    known.tokens.Observe(found.tokens.mean());
    known.foretold.Observe(found.foretold.mean());
    known.seconds.Observe(found.seconds.mean());
  }
}

}  // namespace espalier::coordinator
