#include "coordinator/calibration.h"

#include <algorithm>
#include <cmath>

namespace espalier::coordinator {
namespace {

constexpr double kSessionMemory = 128;  // observations
constexpr double kPriorWeight = 8;      // expected hits that the prior is worth
constexpr double kLeast = 1e-6;         // of a chance
constexpr double kMost = 0.98;

// The first band whose upper edge is not below x.
template <size_t kEdges>
int Band(double x, const std::array<double, kEdges>& edges) {
  return static_cast<int>(std::lower_bound(edges.begin(), edges.end(), x) -
                          edges.begin());
}

int DepthBand(int32_t depth) { return Band<5>(depth, {1, 2, 3, 4, 6}); }
int RankBand(int rank) { return Band<3>(rank, {1, 2, 4}); }
int SureBand(double chance) { return Band<4>(chance, {0.1, 0.3, 0.6, 0.85}); }

double Clamp(double chance) { return std::clamp(chance, kLeast, kMost); }

}  // namespace

double HitRatio::Factor(double prior) const {
  return (hits_ + kPriorWeight * prior) / (foretold_ + kPriorWeight);
}

void HitRatio::Observe(double foretold, bool came_true) {
  foretold_ = kept_ * foretold_ + foretold;
  hits_ = kept_ * hits_ + (came_true ? 1 : 0);
}

double Calibration::OwnChance(const TokenTrie::Opinion& opinion,
                              int32_t depth) const {
  const double said = std::exp(opinion.conditional);
  const auto known = drafters_.find(opinion.peer);
  if (known == drafters_.end()) return Clamp(said);
  const Drafter& drafter = known->second;
  const HitRatio& here =
      drafter.by_place[DepthBand(depth)][RankBand(opinion.rank)];
  return Clamp(said * here.Factor(drafter.all.Factor(1)));
}

Calibration::Agreement& Calibration::AgreementOn(const TokenTrie::Node& node,
                                                 int num_voices) {
  uint64_t proposers = 0;
  for (const TokenTrie::Opinion& opinion : node.opinions) {
    proposers |= uint64_t{1} << opinion.peer;
  }
  return agreement_[{proposers, num_voices}];
}

void Calibration::LearnOpinion(const TokenTrie::Opinion& opinion, int32_t depth,
                               bool came_true) {
  Drafter& drafter = drafters_[opinion.peer];
  const double said = std::exp(opinion.conditional);
  drafter.all.Observe(said, came_true);
  drafter.by_place[DepthBand(depth)][RankBand(opinion.rank)].Observe(said,
                                                                     came_true);
}

double SessionCalibration::BestChance(const TokenTrie::Node& node) const {
  double best = 0;
  for (const TokenTrie::Opinion& opinion : node.opinions) {
    const auto here = drafters_.find(opinion.peer);
    const double factor = here == drafters_.end() ? 1 : here->second.Factor(1);
    best =
        std::max(best, Clamp(factor * shared_.OwnChance(opinion, node.depth)));
  }
  return best;
}

double SessionCalibration::Chance(const TokenTrie& trie, int32_t node,
                                  int32_t parent) const {
  const double best = BestChance(trie.node(node));
  const Calibration::Agreement& agreement =
      shared_.AgreementOn(trie.node(node), trie.NumVoices(parent));
  return Clamp(
      best * agreement.by_best[SureBand(best)].Factor(agreement.all.Factor(1)));
}

void SessionCalibration::Learn(const TokenTrie& trie,
                               absl::Span<const TokenId> emitted) {
  int32_t parent = 0;
  for (TokenId token : emitted) {
    const int voices = trie.NumVoices(parent);
    for (int32_t child = trie.node(parent).first_child;
         child != TokenTrie::kNone; child = trie.node(child).next_sibling) {
      LearnNode(trie, child, voices, trie.node(child).token == token);
    }
    parent = trie.ChildOf(parent, token);
    if (parent == TokenTrie::kNone) return;
  }
}

void SessionCalibration::LearnNode(const TokenTrie& trie, int32_t index,
                                   int num_voices, bool came_true) {
  const TokenTrie::Node& node = trie.node(index);
  const double best = BestChance(node);
  Calibration::Agreement& agreement = shared_.AgreementOn(node, num_voices);
  agreement.all.Observe(best, came_true);
  agreement.by_best[SureBand(best)].Observe(best, came_true);
  for (const TokenTrie::Opinion& opinion : node.opinions) {
    drafters_.try_emplace(opinion.peer, kSessionMemory)
        .first->second.Observe(shared_.OwnChance(opinion, node.depth),
                               came_true);
    shared_.LearnOpinion(opinion, node.depth, came_true);
  }
}

}  // namespace espalier::coordinator
