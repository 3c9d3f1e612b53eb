#include "coordinator/speculation_control.h"

#include <algorithm>
#include <utility>

#include "coordinator/node_budget.h"

namespace espalier::coordinator {
namespace {

constexpr double kMemory = 16;       // rounds
constexpr double kPriorRounds = 4;   // that other sessions' experience is worth
constexpr int64_t kFewestNodes = 8;  // to draft
constexpr int64_t kFirstNodes = 16;

std::vector<DraftWorth> Recall(const SpeculationRecord::Kind& kind,
                               absl::Span<const int> peers) {
  std::vector<DraftWorth> prior;
  for (int peer : peers) {
    DraftWorth& worth = prior.emplace_back(kind.worth[peer]);
    worth.tokens = worth.tokens.Recalled(kMemory, kPriorRounds);
    worth.seconds = worth.seconds.Recalled(kMemory, kPriorRounds);
  }
  return prior;
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
      num_nodes_(kFirstNodes) {
  ++record_.num_running;
}

SpeculationControl::~SpeculationControl() { --record_.num_running; }

double SpeculationControl::tokens_per_second() const {
  return pace_.tokens_per_second();
}

std::vector<DraftCall> SpeculationControl::Calls() const {
  using Attention = DraftCall::Attention;
  std::vector<DraftCall> calls(peers_.size());
  for (int i = 0; i < static_cast<int>(calls.size()); ++i) {
    calls[i].attention = choice_.asks(i)    ? Attention::kAwaited
                         : choice_.probes() ? Attention::kAsked
                                            : Attention::kNone;
    calls[i].patience = choice_.Patience(i, tokens_per_second());
  }
  return calls;
}

int64_t SpeculationControl::NodesToDraft(int64_t limit) const {
  return std::min(limit, std::max(kFewestNodes, num_nodes_ + num_nodes_ / 2));
}

void SpeculationControl::Cut(absl::Span<const PassCost> costs,
                             TokenTree& tree) {
  const double others = static_cast<double>(record_.num_running - 1);
  const RowPrice price = {
      .costs = costs,
      .other_rows =
          1 + static_cast<int64_t>(others * (1 + record_.nodes.mean())),
      .tokens_per_second = tokens_per_second() * (1 + others)};
  num_nodes_ =
      NodesThatPay(absl::MakeConstSpan(tree.log_probs).subspan(1), price);
  record_.nodes.Observe(static_cast<double>(num_nodes_));
  tree.Cut(num_nodes_ + 1);
}

void SpeculationControl::Learn(const Round& round) {
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
    known.tokens.Observe(found.tokens.mean());
    known.seconds.Observe(found.seconds.mean());
  }
}

}  // namespace espalier::coordinator
