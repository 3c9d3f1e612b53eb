#ifndef ESPALIER_COORDINATOR_CONTROL_SPECULATION_RECORD_H_
#define ESPALIER_COORDINATOR_CONTROL_SPECULATION_RECORD_H_

#include <array>
#include <cstdint>
#include <vector>

#include "coordinator/control/probe_budget.h"
#include "coordinator/control/running_mean.h"
#include "coordinator/merge/calibration.h"

namespace espalier::coordinator {

// When a drafter that is not asked is probed next. Counts rounds in which no
// drafter predicted a token.
struct ProbeTimer {
  static constexpr int64_t kSoon = 8;

  int64_t rounds = 0;  // since the last probe
  int64_t tries = 0;   // rounds of a probe without an answer in time
  // Rounds between two probes that the budget allows: doubled after each probe
  // that changes nothing.
  int64_t interval = kSoon;
  // What the last probe took on the verifier's cores, catching up included.
  double seconds = 0;
  double spent = 0;  // for the probe in progress, in tokens
};

// Gain and cost of asking a drafter, per round. Tokens: see TreeGain.
struct DrafterValue {
  explicit DrafterValue(double memory)
      : alone(memory, kHopefulTokens, 1),
        beside(memory, kHopefulTokens, 1),
        seconds(memory),
        shared_seconds(memory) {}

  RunningMean alone;    // tokens, as the only drafter asked
  RunningMean beside;   // tokens, beside the others asked
  RunningMean seconds;  // its share of the round's wait
  // The same if it computes on the verifier's cores, else 0: the passes that
  // all other sessions share wait for it too.
  RunningMean shared_seconds;
  // Its time was last measured while others computed on its cores.
  bool timed_beside_others = false;
  bool asked = true;
  ProbeTimer probe;

 private:
  // For a drafter without observations.
  static constexpr double kHopefulTokens = 1;
};

// Tokens and seconds of past rounds.
struct Throughput {
  explicit Throughput(double memory) : tokens(memory), seconds(memory) {}

  double tokens_per_second() const {
    return seconds.mean() > 0 ? tokens.mean() / seconds.mean() : 0;
  }

  RunningMean tokens;
  RunningMean seconds;
};

// What the sessions of a coordinator share and learn from each other. Owned by
// the Coordinator; lives on the executor.
class SpeculationRecord {
 public:
  static constexpr double kMemory = 128;  // rounds
  static constexpr double kFirstNodes = 16;

  struct Kind {
    explicit Kind(int num_peers)
        : values(num_peers, DrafterValue(kMemory)), throughput(kMemory) {}

    Calibration calibration;
    // By peer: the value in the session that updated it last.
    std::vector<DrafterValue> values;
    Throughput throughput;
    RunningMean nodes{kMemory, kFirstNodes, 1};  // of a round's tree that paid
  };

  explicit SpeculationRecord(int num_peers)
      : probes(num_peers), kinds_{Kind(num_peers), Kind(num_peers)} {}

  // Greedy text is easier to predict than sampled text.
  Kind& kind(bool greedy) { return kinds_[greedy ? 0 : 1]; }

  int64_t num_running = 0;          // running sessions
  std::vector<ProbeBudget> probes;  // by peer
  RunningMean nodes{kMemory};       // of a round's tree

 private:
  std::array<Kind, 2> kinds_;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_CONTROL_SPECULATION_RECORD_H_
