#ifndef ESPALIER_COORDINATOR_MERGE_CALIBRATION_H_
#define ESPALIER_COORDINATOR_MERGE_CALIBRATION_H_

#include <array>
#include <cstdint>
#include <map>
#include <utility>

#include "absl/types/span.h"
#include "common/speculation/types.h"
#include "coordinator/merge/token_trie.h"

namespace espalier::coordinator {

// Ratio of accepted to predicted, used as a factor on new predictions. Old
// observations are forgotten.
class HitRatio {
 public:
  // An observation that is `memory` observations old counts for a third.
  explicit HitRatio(double memory = 512) : kept_(1 - 1 / memory) {}

  // `prior`: the factor while little is known.
  double Factor(double prior) const;
  void Observe(double predicted, bool accepted);

 private:
  double kept_;
  double predicted_ = 0;  // expected number of hits
  double hits_ = 0;
};

// Corrects drafters' conditional probabilities. Learned from the tokens that
// the target emitted at places where drafters had proposed something, whether
// it was chosen or not. There are two steps, because drafters err in their own
// ways and are wrong together:
//   1. A drafter's probability is corrected by drafter, then by depth and rank
//   in its tree.
//   2. The best corrected probability is corrected by which drafters proposed
//   the token and how many proposed any child of the parent, then by how high
//   the best one is: a token that only a good drafter proposed is not the same
//   as one that only a poor drafter proposed.
// Each step is a ratio of accepted to predicted. There is one Calibration for
// greedy and one for sampled requests; see SessionCalibration. Lives on the
// executor.
class Calibration {
 public:
  Calibration() = default;
  Calibration(const Calibration&) = delete;
  Calibration& operator=(const Calibration&) = delete;

 private:
  friend class SessionCalibration;

  static constexpr int kDepthBands = 6;
  static constexpr int kRankBands = 4;
  static constexpr int kSureBands = 5;

  struct Drafter {
    HitRatio all;
    std::array<std::array<HitRatio, kRankBands>, kDepthBands> by_place;
  };
  struct Agreement {
    HitRatio all;
    std::array<HitRatio, kSureBands> by_best;
  };

  // For a node whose parent has `num_proposers` proposers.
  Agreement& AgreementOn(const TokenTrie::Node& node, int num_proposers);
  // A drafter's probability, corrected by what all sessions observed.
  double OwnChance(const TokenTrie::DrafterScore& score, int32_t depth) const;
  void LearnScore(const TokenTrie::DrafterScore& score, int32_t depth,
                  bool accepted);

  std::map<int, Drafter> drafters_;  // by peer
  // By the peers that proposed the node, one bit each, and the number of
  // proposers.
  std::map<std::pair<uint64_t, int>, Agreement> agreement_;
};

// Calibration of one session, whose text may be easier or harder for a drafter
// than the text of others. Lives on the executor.
class SessionCalibration {
 public:
  // Reads and updates `shared`, which must outlive this object.
  explicit SessionCalibration(Calibration* shared) : shared_(*shared) {}

  // Probability that the target emits the node's token, given that it emits the
  // path to `parent`. In (0, 1).
  double Chance(const TokenTrie& trie, int32_t node, int32_t parent) const;

  // Learns from the tokens that the target emitted after the trie's root.
  void Learn(const TokenTrie& trie, absl::Span<const TokenId> emitted);

 private:
  double BestChance(const TokenTrie::Node& node) const;
  void LearnNode(const TokenTrie& trie, int32_t node, int num_proposers,
                 bool accepted);

  Calibration& shared_;
  std::map<int, HitRatio> drafters_;  // by peer, relative to all sessions
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_MERGE_CALIBRATION_H_
