#ifndef ESPALIER_COORDINATOR_CONTROL_SPECULATION_RECORD_H_
#define ESPALIER_COORDINATOR_CONTROL_SPECULATION_RECORD_H_

#include <array>
#include <cstdint>
#include <vector>

#include "coordinator/control/estimate.h"
#include "coordinator/control/plain_pace.h"
#include "coordinator/control/running_mean.h"
#include "coordinator/control/trial_budget.h"
#include "coordinator/merge/calibration.h"

namespace espalier::coordinator {

// Gain and cost of asking a drafter, per round. Tokens: see TreeGain. What was
// not observed is a guess.
struct DrafterValue {
  static constexpr double kMemory = 96;  // rounds

  // Nothing was observed in a round.
  void Fade() {
    alone.Fade();
    beside.Fade();
    seconds.Fade();
  }
  // For another session, whose own rounds soon outweigh it.
  DrafterValue Recalled() const {
    constexpr double kMax = 12;
    DrafterValue copy = *this;
    copy.alone = alone.Recalled(kMax);
    copy.beside = beside.Recalled(kMax);
    return copy;
  }

  Estimate alone{kMemory, 0.5, 0.5};   // tokens, as the only drafter asked
  Estimate beside{kMemory, 0.1, 0.2};  // tokens, beside the best drafter
  Estimate seconds{32, 0, 0};          // its share of the round's wait
  // `seconds` if it computes on the verifier's cores, else 0: the passes that
  // all other sessions share wait for it too.
  RunningMean shared_seconds{32};
  RunningMean level_seconds{32};  // of a level of its tree below the first
  // Averages what its rounds take beyond its wait and the nodes' rows.
  RunningMean other_seconds{48, 0, 8};
  // Averages what a call takes longer after a pause, for each token by which
  // the text grew in it.
  RunningMean catch_up_seconds{8};
  // Chance that the token after a text that its tree has reached is in it, too:
  // that of its first level.
  RunningMean continues{kMemory, 0.5, 1};
  // As it reported last.
  uint64_t cpu_group = 0;
  bool own_cores = false;  // not the verifier's
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

// Holds what the sessions of a coordinator share and learn from each other.
// Owned by the Coordinator; lives on the executor.
class SpeculationRecord {
 public:
  static constexpr double kMemory = 128;  // rounds
  static constexpr double kFirstNodes = 16;

  struct Kind {
    explicit Kind(int num_peers) : values(num_peers) {}

    Calibration calibration;
    // By peer: the value in the session that updated it last.
    std::vector<DrafterValue> values;
    PlainPace plain;
    RunningMean nodes{kMemory, kFirstNodes, 1};  // of a round's tree that paid
  };

  explicit SpeculationRecord(int num_peers)
      : kinds_{Kind(num_peers), Kind(num_peers)} {}

  // Greedy text is easier to predict than sampled text.
  Kind& kind(bool greedy) { return kinds_[greedy ? 0 : 1]; }

  int64_t num_running = 0;  // running sessions
  TrialBudget trials;
  RunningMean nodes{kMemory};  // of a round's tree

 private:
  std::array<Kind, 2> kinds_;
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_COORDINATOR_CONTROL_SPECULATION_RECORD_H_
