// The policy from the first answer on, beside the best fixed choice of drafters
// in hindsight, on machines that differ in what passes, drafters and hops take.
// The trees are real (traces/); no clock is involved, so the figures are the
// same everywhere.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/coordinator/control/trace_simulation.h"
#include "tests/testing/source_path.h"

namespace espalier::coordinator {
namespace {

constexpr int kOrders = 3;  // of the answers, and seeds

const std::vector<double> kAvx2 = {4.7, 5.2,  5.9,  6.6, 9.0,
                                   9.6, 10.2, 10.9, 11.6};
const std::vector<double> kAmx = {3.13, 3.88, 4.35, 4.8, 5.3,
                                  6.3,  7.3,  8.3,  9.28};
const std::vector<double> kFloat = {9,    9.3,  9.6,  9.9, 10.3,
                                    10.7, 11.1, 11.6, 12};
const std::vector<double> kGpu = {4.3, 4.35, 4.4,  4.45, 4.5,
                                  4.5, 4.55, 4.55, 4.6};
const std::vector<double> kLarge = {60, 61, 62, 63, 65, 67, 70, 73, 76};
const std::vector<double> kLinear = {3.5, 7,    10.5, 14,  17.5,
                                     21,  24.5, 28,   31.5};
const std::vector<double> kSlowHeads = {0.03, 1.8, 1.8, 1.1};
const DrafterSet kNear = 1;  // lookup, in the coordinator

std::vector<MachineSpec> Machines() {
  const Span early = {0, 0.35}, late = {0.5, 2};
  return {
      {.name = "one process", .hop = 0.05},
      {.name = "services"},
      {.name = "busy", .busy = kAlways},
      {.name = "busy, then quiet", .busy = early},
      {.name = "quiet, then busy", .busy = late},
      {.name = "heads slow down", .slow_heads = late},
      {.name = "the machine slows down", .slow = late},
      {.name = "rows wrong at first", .wrong_rows = 150},
      {.name = "busy, rows wrong, slow heads",
       .busy = kAlways,
       .crowd = 2,
       .wrong_rows = 400},
      {.name = "busy, lookup near", .near = kNear, .busy = kAlways},
      {.name = "avx2, services", .pass = kAvx2, .compute = kSlowHeads},
      {.name = "avx2, busy, lookup near",
       .pass = kAvx2,
       .compute = kSlowHeads,
       .near = kNear,
       .busy = kAlways},
      {.name = "amx, served", .pass = kAmx, .near = kNear},
      {.name = "amx, quick heads",
       .pass = kAmx,
       .compute = {0.03, 0.9, 0.9, 0.6},
       .near = kNear},
      {.name = "float32", .pass = kFloat},
      {.name = "float32, busy", .pass = kFloat, .near = kNear, .busy = kAlways},
      {.name = "gpu",
       .pass = kGpu,
       .compute = {0.03, 0.5, 0.5, 0.3},
       .hop = 0.1,
       .near = kNear,
       .own_cores = true,
       .catch_up = 0.001},
      {.name = "heads on other cores", .near = kNear, .own_cores = true},
      {.name = "large model",
       .pass = kLarge,
       .compute = {0.05, 2, 2, 1.2},
       .near = kNear},
      {.name = "rows cost passes", .pass = kLinear, .near = kNear},
  };
}

struct Outcome {
  std::string machine;
  double gain = 0;         // over plain decoding
  double best = 0;         // of the fixed choices, plain decoding included
  double worst = 0;        // of all answers, over plain decoding
  double least_first = 0;  // of the first answers
  // What the ledger says of the time won, less what was won, as a share of the
  // time of plain decoding.
  double ledger_error = 0;

  double regret() const { return 1 - gain / best; }
};

double SumMs(const std::vector<Simulation::Answer>& answers) {
  double sum = 0;
  for (const auto& answer : answers) sum += answer.ms;
  return sum;
}

// kOrders starts on the machine; the answers come in another order each time.
Outcome Measure(const MachineSpec& machine,
                const std::vector<TracedAnswer>& answers, bool warm_up) {
  double plain_ms = 0, ms = 0, balance_ms = 0;
  std::vector<double> fixed_ms(1 << kNumDrafters);
  Outcome outcome = {.machine = machine.name, .worst = 9, .least_first = 9};
  for (int seed = 0; seed < kOrders; ++seed) {
    std::vector<TracedAnswer> turned = answers;
    std::rotate(turned.begin(), turned.begin() + 3 * seed, turned.end());
    const auto plain = Simulation(machine, seed).Fixed(turned, 0);
    const auto adaptive = Simulation(machine, seed).Adaptive(turned, warm_up);
    for (size_t i = 0; i < plain.size(); ++i) {
      const double gain = plain[i].ms / adaptive[i].ms;
      balance_ms += adaptive[i].balance_ms;
      outcome.worst = std::min(outcome.worst, gain);
      if (i == 0) outcome.least_first = std::min(outcome.least_first, gain);
    }
    plain_ms += SumMs(plain);
    ms += SumMs(adaptive);
    for (DrafterSet set = 1; set < fixed_ms.size(); ++set) {
      fixed_ms[set] += SumMs(Simulation(machine, seed).Fixed(turned, set));
    }
  }
  fixed_ms[0] = plain_ms;
  outcome.gain = plain_ms / ms;
  outcome.ledger_error = (balance_ms - (plain_ms - ms)) / plain_ms;
  outcome.best = plain_ms / *std::min_element(fixed_ms.begin(), fixed_ms.end());
  return outcome;
}

class SpeculationStartTest : public testing::TestWithParam<const char*> {
 protected:
  std::vector<Outcome> MeasureAll(bool warm_up) {
    const std::vector<TracedAnswer> answers =
        ReadTraces(SourcePath("tests/coordinator/control/traces/") +
                   GetParam() + ".trace");
    std::vector<Outcome> outcomes;
    for (const MachineSpec& machine : Machines()) {
      const Outcome& o =
          outcomes.emplace_back(Measure(machine, answers, warm_up));
      std::printf("%-8s %-30s %s: %.2f of %.2f; first %.2f, worst %.2f\n",
                  GetParam(), o.machine.c_str(), warm_up ? "warm" : "cold",
                  o.gain, o.best, o.least_first, o.worst);
    }
    return outcomes;
  }
};

// Warm-ups help greedy text; in sampled text the first answer has little to
// gain.
TEST_P(SpeculationStartTest, IsNearTheBestFixedChoiceOnEveryMachine) {
  double sum = 0, gained = 0;
  const std::vector<Outcome> outcomes = MeasureAll(/*warm_up=*/false);
  const std::vector<Outcome> warm = MeasureAll(/*warm_up=*/true);
  for (size_t i = 0; i < outcomes.size(); ++i) {
    const Outcome& o = outcomes[i];
    gained += warm[i].least_first - o.least_first;
    sum += o.regret();
    EXPECT_LE(o.regret(), 0.25) << o.machine;
    EXPECT_GE(o.gain, 0.98) << o.machine << ": slower than plain decoding";
    EXPECT_GE(o.worst, 0.85) << o.machine;
    EXPECT_LE(std::abs(o.ledger_error), 0.05) << o.machine;
  }
  const double machines = static_cast<double>(outcomes.size());
  EXPECT_LE(sum / machines, 0.05);
  EXPECT_GE(gained / machines,
            GetParam() == std::string("greedy") ? 0.03 : -0.02);
}

INSTANTIATE_TEST_SUITE_P(Temperatures, SpeculationStartTest,
                         testing::Values("greedy", "sampled"),
                         [](const auto& test) {
                           return std::string(test.param);
                         });

}  // namespace
}  // namespace espalier::coordinator
