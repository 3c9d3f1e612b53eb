#include "coordinator/merge/calibration.h"

#include <algorithm>
#include <cmath>

namespace espalier::coordinator {
namespace {

constexpr double kSessionMemory = 128;  // observations
constexpr double kPriorWeight = 8;      // weight of the prior, in expected hits
constexpr double kMin = 1e-6;           // probability
constexpr double kMax = 0.98;

// Index of the first band whose upper edge is at least x.
template <size_t kEdges>
int Band(double x, const std::array<double, kEdges>& edges) {
  return static_cast<int>(std::lower_bound(edges.begin(), edges.end(), x) -
                          edges.begin());
}

int DepthBand(int32_t depth) { return Band<5>(depth, {1, 2, 3, 4, 6}); }
int RankBand(int rank) { return Band<3>(rank, {1, 2, 4}); }
int SureBand(double chance) { return Band<4>(chance, {0.1, 0.3, 0.6, 0.85}); }

double Clamp(double chance) { return std::clamp(chance, kMin, kMax); }

}  // namespace

double HitRatio::Factor(double prior) const {
  return (hits_ + kPriorWeight * prior) / (predicted_ + kPriorWeight);
}

void HitRatio::Observe(double predicted, bool accepted) {
  predicted_ = kept_ * predicted_ + predicted;
  hits_ = kept_ * hits_ + (accepted ? 1 : 0);
}

double Calibration::OwnChance(const TokenTrie::DrafterScore& score,
                              int32_t depth) const {
  const double said = std::exp(score.conditional);
  const auto known = drafters_.find(score.peer);
  if (known == drafters_.end()) return Clamp(said);
  const Drafter& drafter = known->second;
  const HitRatio& here =
      drafter.by_place[DepthBand(depth)][RankBand(score.rank)];
  return Clamp(said * here.Factor(drafter.all.Factor(1)));
}

Calibration::Agreement& Calibration::AgreementOn(const TokenTrie::Node& node,
                                                 int num_proposers) {
  uint64_t proposers = 0;
  for (const TokenTrie::DrafterScore& score : node.scores) {
    proposers |= uint64_t{1} << score.peer;
  }
  return agreement_[{proposers, num_proposers}];
}

void Calibration::LearnScore(const TokenTrie::DrafterScore& score,
                             int32_t depth, bool accepted) {
  Drafter& drafter = drafters_[score.peer];
  const double said = std::exp(score.conditional);
  drafter.all.Observe(said, accepted);
  drafter.by_place[DepthBand(depth)][RankBand(score.rank)].Observe(said,
                                                                   accepted);
}

double SessionCalibration::BestChance(const TokenTrie::Node& node) const {
  double best = 0;
  for (const TokenTrie::DrafterScore& score : node.scores) {
    const auto here = drafters_.find(score.peer);
    const double factor = here == drafters_.end() ? 1 : here->second.Factor(1);
    best = std::max(best, Clamp(factor * shared_.OwnChance(score, node.depth)));
  }
  return best;
}

double SessionCalibration::Chance(const TokenTrie& trie, int32_t node,
                                  int32_t parent) const {
  const double best = BestChance(trie.node(node));
  const Calibration::Agreement& agreement =
      shared_.AgreementOn(trie.node(node), trie.NumProposers(parent));
  return Clamp(
      best * agreement.by_best[SureBand(best)].Factor(agreement.all.Factor(1)));
}

void SessionCalibration::Learn(const TokenTrie& trie,
                               absl::Span<const TokenId> emitted) {
  int32_t parent = 0;
  for (TokenId token : emitted) {
    const int num_proposers = trie.NumProposers(parent);
    for (int32_t child = trie.node(parent).first_child;
         child != TokenTrie::kNone; child = trie.node(child).next_sibling) {
      LearnNode(trie, child, num_proposers, trie.node(child).token == token);
    }
    parent = trie.ChildOf(parent, token);
    if (parent == TokenTrie::kNone) return;
  }
}

void SessionCalibration::LearnNode(const TokenTrie& trie, int32_t index,
                                   int num_proposers, bool accepted) {
  const TokenTrie::Node& node = trie.node(index);
  const double best = BestChance(node);
  Calibration::Agreement& agreement = shared_.AgreementOn(node, num_proposers);
  agreement.all.Observe(best, accepted);
  agreement.by_best[SureBand(best)].Observe(best, accepted);
  for (const TokenTrie::DrafterScore& score : node.scores) {
    drafters_.try_emplace(score.peer, kSessionMemory)
        .first->second.Observe(shared_.OwnChance(score, node.depth), accepted);
    shared_.LearnScore(score, node.depth, accepted);
  }
}

}  // namespace espalier::coordinator
