// Answers of a simulated server, round by round: the trees are real, the times
// are those of a simulated machine, and the decisions those of
// SpeculationControl. No clock is involved.
#ifndef ESPALIER_TESTS_COORDINATOR_CONTROL_TRACE_SIMULATION_H_
#define ESPALIER_TESTS_COORDINATOR_CONTROL_TRACE_SIMULATION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "coordinator/control/speculation_control.h"

namespace espalier::coordinator {

// The drafters of the traces: prompt lookup, two heads, a block drafter.
inline constexpr int kLookup = 0, kChat = 1, kMath = 2, kBlock = 3;
inline constexpr int kNumDrafters = 4;
using DrafterSet = uint32_t;  // bit i: drafter i

// Holds what a set of drafters proposes at one position: its merged tree, best
// nodes first, at most 8.
struct MergedTree {
  std::vector<double> chances;  // calibrated, of being emitted
  uint32_t hits = 0;            // bit i: node i was emitted
  double top = 0;               // chance that a child of the root is emitted
};
// Every position of an answer, by set of drafters.
using TracedAnswer = std::vector<std::vector<MergedTree>>;
// Reads a file of traces/, see its README.
std::vector<TracedAnswer> ReadTraces(const std::string& path);

// A span of the simulation, as shares of all its tokens.
struct Span {
  double begin = 0, end = 0;
  bool Has(double share) const { return begin <= share && share < end; }
};
inline constexpr Span kAlways = {0, 2};

// Times are in milliseconds.
struct MachineSpec {
  std::string name;
  // Milliseconds of a pass over 1 to 9 rows.
  std::vector<double> pass = {3.5, 3.75, 4.02, 4.3, 4.65, 5.0, 5.35, 5.7, 6.1};
  std::vector<double> compute = {0.03, 1.3, 1.3, 0.7};  // by drafter
  double hop = 0.2;                                     // to a service and back
  DrafterSet near = 0;      // in the coordinator's process
  bool own_cores = false;   // drafters do not compute on the verifier's
  double presence = 0.3;    // a pass after a network's work takes longer
  double catch_up = 0.036;  // of a network, a token
  Span busy = {};           // a hop takes 1 to 4 ms more
  double crowd = 1;         // factor on drafters while busy
  Span slow_heads = {};     // factor 2
  Span slow = {};           // factor 2 on everything
  // Rounds in which the verifier believes that passes cost as much as rows.
  int64_t wrong_rows = 0;
};

class Simulation {
 public:
  struct Answer {
    int64_t tokens = 0;
    double ms = 0;
    double balance_ms = 0;  // by the ledger
  };
  Simulation(const MachineSpec& spec, uint64_t seed);

  // Returns all answers by SpeculationControl, as one kind of session; after a
  // warm-up, as WarmUp has it, on the last answer.
  std::vector<Answer> Adaptive(const std::vector<TracedAnswer>& answers,
                               bool warm_up);
  // Returns all answers with the same drafters; the cheap one decides whether
  // the others are asked.
  std::vector<Answer> Fixed(const std::vector<TracedAnswer>& answers,
                            DrafterSet set);

 private:
  struct Round;

  void Begin(const std::vector<TracedAnswer>& answers);
  void RunWarmUp(TracedAnswer text);
  void Pass(int64_t tokens);
  void SetTime();
  double Wait();
  double PassMs(int64_t rows);
  double ComputeMs(int drafter);
  // explored: of a warm-up; 0: an answer.
  Answer RunAdaptive(const TracedAnswer& answer, DrafterSet explored);
  double Ask(const std::vector<DraftCall>& calls, Round& round);
  void Draft(SpeculationControl& control, DrafterSet explored, Round& round);
  void Credit(const SpeculationControl& control, Round& round);
  double GainOf(const SpeculationControl& control, const MergedTree& tree,
                bool real) const;

  const MachineSpec spec_;
  std::mt19937_64 random_;
  SpeculationRecord record_{kNumDrafters};
  PassCosts costs_;
  double all_tokens_ = 1;
  double done_ = 0;
  int64_t rounds_ = 0;
  std::vector<int64_t> lag_;  // tokens, by drafter
  const TokenTree late_ = TokenTree::RootOnly(0);
};

}  // namespace espalier::coordinator

#endif  // ESPALIER_TESTS_COORDINATOR_CONTROL_TRACE_SIMULATION_H_
