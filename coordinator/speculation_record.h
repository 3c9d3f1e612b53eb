#ifndef ESPALIER_COORDINATOR_SPECULATION_RECORD_H_
#define ESPALIER_COORDINATOR_SPECULATION_RECORD_H_

#include <array>
#include <cstdint>
#include <vector>

#include "coordinator/calibration.h"
#include "coordinator/running_mean.h"

namespace espalier::coordinator {

// What asking a drafter brings and costs a round. Tokens: see TreeGain.
struct DraftWorth {
  explicit DraftWorth(double memory)
      : alone(memory, kHopefulTokens, 1),
        beside(memory, kHopefulTokens, 1),
        seconds(memory) {}

  RunningMean alone;    // tokens, if nobody else is asked
  RunningMean beside;   // tokens, beside the others that were asked
  RunningMean seconds;  // of the round's wait, as its share of it
  bool asked = true;

 private:
  // Of a drafter that nobody knows yet.
  static constexpr double kHopefulTokens = 1;
};

// Rounds in the past: tokens that they emitted, seconds that they took.
struct Pace {
  explicit Pace(double memory) : tokens(memory), seconds(memory) {}

  double tokens_per_second() const {
    return seconds.mean() > 0 ? tokens.mean() / seconds.mean() : 0;
  }

  RunningMean tokens;
  RunningMean seconds;
};

// What the sessions of a coordinator learn for each other, and what they share.
// Owned by the Coordinator; lives on the executor.
class SpeculationRecord {
 public:
  static constexpr double kMemory = 128;  // rounds
  static constexpr double kFirstNodes = 16;

  struct Kind {
    explicit Kind(int num_peers)
        : worth(num_peers, DraftWorth(kMemory)), pace(kMemory) {}

    Calibration calibration;
    // By peer: as the session found it that heard of the peer last.
    std::vector<DraftWorth> worth;
    Pace pace;
    RunningMean nodes{kMemory, kFirstNodes, 1};  // that paid, of a round's tree
  };

  explicit SpeculationRecord(int num_peers)
      : kinds_{Kind(num_peers), Kind(num_peers)} {}

  // Greedy text is foretold better than sampled text.
  Kind& kind(bool greedy) { return kinds_[greedy ? 0 : 1]; }

  int64_t num_running = 0;     // sessions
  RunningMean nodes{kMemory};  // of a round's tree

 private:
  std::array<Kind, 2> kinds_;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_SPECULATION_RECORD_H_
