#ifndef ESPALIER_COORDINATOR_CALIBRATION_H_
#define ESPALIER_COORDINATOR_CALIBRATION_H_

#include <array>
#include <cstdint>
#include <map>
#include <utility>

#include "absl/types/span.h"
#include "common/spec/types.h"
#include "coordinator/token_trie.h"

namespace espalier::coordinator {

// How often what was foretold came true, as a factor on what is foretold now;
// what is long past counts for little.
class HitRatio {
 public:
  // What is `memory` observations past counts for a third.
  explicit HitRatio(double memory = 512) : kept_(1 - 1 / memory) {}

  // `prior`: the factor as long as little is known.
  double Factor(double prior) const;
  void Observe(double foretold, bool came_true);

 private:
  double kept_;
  double foretold_ = 0;  // expected number of hits
  double hits_ = 0;
};

// What drafters' conditional probabilities are worth, learned from what the
// target emitted where they had proposed something, chosen or not. In two
// steps, because drafters err in their own ways and are wrong together:
//   a drafter's word, by drafter, then by its depth and rank in its tree;
//   the best of those words, by who proposed the token and how many drafters
//   went on behind the parent, then by how sure the best is: that a good
//   drafter is alone with a token says something else than that a poor one is.
// Each step is a ratio of what happened to what was foretold. One for greedy
// and one for sampled requests; see SessionCalibration. Lives on the executor.
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

  // Of a node whose parent has so many voices.
  Agreement& AgreementOn(const TokenTrie::Node& node, int num_voices);
  // What a drafter's word has been worth to all sessions.
  double OwnChance(const TokenTrie::Opinion& opinion, int32_t depth) const;
  void LearnOpinion(const TokenTrie::Opinion& opinion, int32_t depth,
                    bool came_true);

  std::map<int, Drafter> drafters_;  // by peer
  // By the peers that proposed the node, a bit each, and the number of voices.
  std::map<std::pair<uint64_t, int>, Agreement> agreement_;
};

// The same for one session, whose text may be easier or harder for a drafter
// than others' are. Lives on the executor.
class SessionCalibration {
 public:
  // `shared` is learned from and taught; must outlive this.
  explicit SessionCalibration(Calibration* shared) : shared_(*shared) {}

  // That the target emits the node's token if it emits the path to `parent`.
  // Above 0, below 1.
  double Chance(const TokenTrie& trie, int32_t node, int32_t parent) const;

  // The target emitted this behind the trie's root.
  void Learn(const TokenTrie& trie, absl::Span<const TokenId> emitted);

 private:
  double BestChance(const TokenTrie::Node& node) const;
  void LearnNode(const TokenTrie& trie, int32_t node, int num_voices,
                 bool came_true);

  Calibration& shared_;
  std::map<int, HitRatio> drafters_;  // by peer, on top of what all know
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_CALIBRATION_H_
