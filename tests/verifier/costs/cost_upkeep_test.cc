// The table of costs on a simulated machine: it must come close to the true
// costs within some hundred rounds, whatever its initial values and the
// machine's behaviour.
#include "verifier/costs/cost_upkeep.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace espalier::verifier {
namespace {

constexpr int64_t kMaxRows = 64;
constexpr double kGoodYield = 0.8;  // of the best choice
constexpr int64_t kRowCounts[] = {1,  2,  4,  6,  7,  12, 13,
                                  16, 17, 24, 32, 64, 128};

// Reading the weights takes `memory` seconds, a tile of six rows `compute`.
struct Machine {
  double memory = 0.010;
  double compute = 0.004;

  double Seconds(int64_t rows) const {
    const double tiles = std::ceil(static_cast<double>(rows) / 6);
    return std::max(memory, compute * tiles) + 0.1 * memory +
           0.0002 * static_cast<double>(rows);
  }
};

// A machine on which 16 rows cost little more than one.
constexpr Machine kWide = {.memory = 0.010, .compute = 0.0025};
// A machine on which seven rows cost twice what six do.
constexpr Machine kNarrow = {.memory = 0.006, .compute = 0.006};

using Distortion = std::function<double(int64_t rows)>;

PassCosts TableOf(const Machine& machine, const Distortion& distortion) {
  PassCosts costs;
  for (int64_t rows : kRowCounts) {
    costs.push_back(
        {rows, absl::Seconds(machine.Seconds(rows) * distortion(rows))});
  }
  return costs;
}

// Sessions that verify the number of rows that pays most by the table: a chain
// of tokens, each of which is right with some chance, after `drafting`.
class Rounds {
 public:
  Rounds(const Machine& machine, PassCosts table, uint32_t seed = 7,
         TableTrust trust = TableTrust::kUsual)
      : machine_(machine),
        upkeep_(std::move(table), kMaxRows, trust),
        random_(seed) {}

  void Run(int count) {
    for (int i = 0; i < count; ++i) {
      const int64_t rows = BestRows([this](int64_t n) {
        return absl::ToDoubleSeconds(PassTime(upkeep_.points(), n));
      });
      if (const auto measured = upkeep_.RowsBefore(rows)) {
        const auto [time, spent] = Measure(*measured);
        upkeep_.ObserveBefore(*measured, time, spent);
        upkeep_seconds_ += absl::ToDoubleSeconds(spent);
      }
      const double time = Noisy(rows);
      upkeep_.Observe(rows, absl::Seconds(time));
      session_seconds_ += time;
    }
  }

  // Runs measuring passes until none is due. Returns their number.
  int RestUntilCertain() {
    int passes = 0;
    while (const auto rows = upkeep_.RowsAtRest()) {
      upkeep_.Observe(*rows, Measure(*rows).time);
      if (++passes == 1000) break;
    }
    return passes;
  }

  void set_machine(const Machine& machine) { machine_ = machine; }
  void set_interrupted_one_in(uint32_t passes) { interrupted_one_in_ = passes; }

  // Returns tokens per second with the table's choice of rows, relative to the
  // best choice.
  double Yield() const {
    const auto truth = [this](int64_t n) { return machine_.Seconds(n); };
    const int64_t chosen = BestRows([this](int64_t n) {
      return absl::ToDoubleSeconds(PassTime(upkeep_.points(), n));
    });
    return TokensPerSecond(chosen, truth) /
           TokensPerSecond(BestRows(truth), truth);
  }
  // Compares the table with the true costs, for passes over up to `most` rows.
  double LargestError(int64_t most) const {
    double largest = 0;
    for (const PassCost& point : upkeep_.points()) {
      if (point.rows > most) break;
      largest = std::max(largest,
                         std::abs(std::log(absl::ToDoubleSeconds(point.time) /
                                           machine_.Seconds(point.rows))));
    }
    return std::exp(largest) - 1;
  }
  std::string Show() const {
    std::string shown;
    for (const PassCost& point : upkeep_.points()) {
      shown += std::to_string(point.rows) + ": " +
               std::to_string(absl::ToDoubleMilliseconds(point.time)) +
               " (true " + std::to_string(1e3 * machine_.Seconds(point.rows)) +
               ")\n";
    }
    return shown;
  }
  double upkeep_share() const { return upkeep_seconds_ / session_seconds_; }

 private:
  using Cost = std::function<double(int64_t rows)>;

  double TokensPerSecond(int64_t rows, const Cost& cost) const {
    double tokens = 1, chance = 1;
    for (int64_t node = 1; node < rows; ++node) tokens += chance *= 0.8;
    return tokens / (0.001 + cost(rows));
  }
  int64_t BestRows(const Cost& cost) const {
    int64_t best = 1;
    for (int64_t rows = 2; rows <= 32; ++rows) {
      if (TokensPerSecond(rows, cost) > TokensPerSecond(best, cost)) {
        best = rows;
      }
    }
    return best;
  }
  // Varies by a tenth; sometimes another process has the cores.
  double Noisy(int64_t rows) {
    const double noise = std::exp(0.08 * normal_(random_));
    const double odd = random_() % interrupted_one_in_ == 0 ? 6 : 1;
    return machine_.Seconds(rows) * noise * odd;
  }
  struct Measurement {
    absl::Duration time;
    absl::Duration spent;
  };
  Measurement Measure(int64_t rows) {
    const absl::Duration first = absl::Seconds(Noisy(rows));
    if (!upkeep_.SeemsInterrupted(rows, first)) return {first, first};
    const absl::Duration second = absl::Seconds(Noisy(rows));
    return {std::min(first, second), first + second};
  }

  Machine machine_;
  uint32_t interrupted_one_in_ = 32;  // passes
  CostUpkeep upkeep_;
  std::mt19937 random_;
  std::normal_distribution<double> normal_;
  double session_seconds_ = 0;
  double upkeep_seconds_ = 0;
};

struct Start {
  std::string name;
  Distortion distortion;
};

std::vector<Start> Starts() {
  std::vector<Start> starts = {
      {"true", [](int64_t) { return 1.0; }},
      {"20 times", [](int64_t) { return 20.0; }},
      {"a twentieth", [](int64_t) { return 0.05; }},
      {"all but the first 20 times",
       [](int64_t rows) { return rows == 1 ? 1.0 : 20.0; }},
      {"all but the first a twentieth",
       [](int64_t rows) { return rows == 1 ? 1.0 : 0.05; }},
      {"too steep",
       [](int64_t rows) { return std::sqrt(static_cast<double>(rows)); }},
      {"too flat",
       [](int64_t rows) { return 1 / std::sqrt(static_cast<double>(rows)); }},
  };
  for (int64_t wrong : kRowCounts) {
    for (double factor : {20.0, 0.05}) {
      starts.push_back(
          {std::to_string(wrong) + " rows times " + std::to_string(factor),
           [=](int64_t rows) { return rows == wrong ? factor : 1.0; }});
    }
  }
  return starts;
}

class CostUpkeepTest : public testing::TestWithParam<Machine> {};

// Never idle: the table learns only from passes of sessions and measuring
// passes before them.
TEST_P(CostUpkeepTest, SessionsAloneFindTheTruthFromAnyStart) {
  double sum = 0;
  int runs = 0;
  for (const Start& start : Starts()) {
    for (uint32_t seed = 1; seed <= 5; ++seed) {
      Rounds rounds(GetParam(), TableOf(GetParam(), start.distortion), seed);
      rounds.Run(400);
      EXPECT_GE(rounds.Yield(), kGoodYield) << start.name << "\n"
                                            << rounds.Show();
      sum += rounds.Yield();
      ++runs;
    }
  }
  EXPECT_GE(sum / runs, 0.95);
}

TEST_P(CostUpkeepTest, SessionsFollowAMachineThatChangesItsSpeed) {
  for (double memory : {0.5, 1.0, 2.0}) {
    for (double compute : {0.5, 1.0, 2.0}) {
      Rounds rounds(GetParam(), TableOf(GetParam(), [](int64_t) { return 1; }));
      rounds.Run(300);
      rounds.set_machine({.memory = memory * GetParam().memory,
                          .compute = compute * GetParam().compute});
      rounds.Run(300);
      EXPECT_GE(rounds.Yield(), kGoodYield) << memory << ", " << compute << "\n"
                                            << rounds.Show();
    }
  }
}

// Sessions wait for few measuring passes if nothing changes.
TEST_P(CostUpkeepTest, WhatIsKnownCostsLittleToKeep) {
  Rounds rounds(GetParam(), TableOf(GetParam(), [](int64_t) { return 1; }));
  rounds.Run(3000);
  EXPECT_LE(rounds.upkeep_share(), 0.025);
  EXPECT_GE(rounds.Yield(), kGoodYield);
}

// However much is in doubt: a sixteenth of what their own passes took.
TEST(CostUpkeep, SessionsWaitForOneMeasurementInSixteenOfTheirPasses) {
  const auto flat = [](int64_t) { return 1.0; };
  CostUpkeep upkeep(TableOf(kWide, flat), kMaxRows);
  constexpr int64_t kRows = 4;
  int num_passes = 0;
  int num_measured = 0;
  for (; num_measured < 3 && num_passes < 1000; ++num_passes) {
    // A machine that changes its speed leaves everything in doubt.
    const absl::Duration time = absl::Milliseconds(num_passes % 2 ? 5 : 50);
    upkeep.Observe(kRows, time);
    if (const auto rows = upkeep.RowsBefore(kRows)) {
      upkeep.ObserveBefore(*rows, absl::Milliseconds(30),
                           absl::Milliseconds(50));
      ++num_measured;
    }
  }
  ASSERT_EQ(num_measured, 3);
  // Two are paid back: 100 ms, of passes that take 27.5 ms.
  EXPECT_GT(num_passes, 100 * 16 / 28);
}

TEST(CostUpkeep, NoMeasurementBeforeAPassHasMoreRowsThanAPassMay) {
  const auto flat = [](int64_t) { return 1.0; };
  constexpr int64_t kRows = 4;
  CostUpkeep upkeep(TableOf(kWide, flat), /*max_rows=*/kRows);
  int num_measured = 0;
  for (int i = 0; i < 1000; ++i) {
    upkeep.Observe(kRows, absl::Milliseconds(i % 2 ? 5 : 50));
    const auto rows = upkeep.RowsBefore(kRows);
    if (!rows) continue;
    EXPECT_LE(*rows, kRows);
    upkeep.ObserveBefore(*rows, absl::Milliseconds(30), absl::Milliseconds(50));
    ++num_measured;
  }
  EXPECT_GT(num_measured, 0);
}

// A start on a busy machine said that 36 times as long, and in proportion to
// the rows.
TEST_P(CostUpkeepTest, ADoubtfulTableIsCorrectedSooner) {
  const auto rounds_until_true = [](TableTrust trust) {
    PassCosts linear;
    for (int64_t rows : kRowCounts) {
      linear.push_back({rows, absl::Milliseconds(400) * rows});
    }
    Rounds rounds(GetParam(), linear, /*seed=*/7, trust);
    int count = 0;
    for (; count < 1000 && rounds.Yield() < kGoodYield; count += 5) {
      rounds.Run(5);
    }
    return count;
  };
  const int doubtful = rounds_until_true(TableTrust::kDoubtful);
  EXPECT_LT(2 * doubtful, rounds_until_true(TableTrust::kUsual));
  EXPECT_LE(doubtful, 100);
}

// A GPU's table is measured before the first request, so that no text waits for
// a measuring pass; it follows the clock nevertheless.
TEST_P(CostUpkeepTest, ASteadyTableIsCertainAndFollows) {
  Rounds rounds(GetParam(), TableOf(GetParam(), [](int64_t) { return 1; }),
                /*seed=*/7, TableTrust::kSteady);
  EXPECT_EQ(rounds.RestUntilCertain(), 0);
  rounds.Run(500);
  EXPECT_LT(rounds.upkeep_share(), 0.01);
  EXPECT_GE(rounds.Yield(), kGoodYield);
  Machine slower = GetParam();
  slower.memory *= 1.5;
  slower.compute *= 1.5;
  rounds.set_machine(slower);
  rounds.Run(300);
  EXPECT_LT(rounds.upkeep_share(), 0.01);
  EXPECT_LT(rounds.LargestError(16), 0.25) << rounds.Show();
}

// Other processes have the cores in every fifth pass. Nothing that is measured
// once can be believed then.
TEST_P(CostUpkeepTest, ABusyMachineDoesNotHideWhatPays) {
  double sum = 0;
  int runs = 0;
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    Rounds rounds(GetParam(), TableOf(GetParam(), [](int64_t) { return 1; }),
                  seed);
    rounds.set_interrupted_one_in(5);
    for (int i = 0; i < 20; ++i) {
      rounds.Run(20);
      sum += rounds.Yield();
      ++runs;
    }
  }
  EXPECT_GE(sum / runs, 0.955);
}

TEST(CostUpkeep, APassThatTookLongSeemsInterrupted) {
  const CostUpkeep upkeep(
      {{1, absl::Milliseconds(4)}, {4, absl::Milliseconds(8)}}, kMaxRows);
  EXPECT_FALSE(upkeep.SeemsInterrupted(4, absl::Milliseconds(9)));
  EXPECT_TRUE(upkeep.SeemsInterrupted(4, absl::Milliseconds(11)));
  EXPECT_TRUE(upkeep.SeemsInterrupted(1, absl::Milliseconds(9)));
}

TEST_P(CostUpkeepTest, AnIdleVerifierFindsTheWholeTruth) {
  for (const Start& start : Starts()) {
    Rounds rounds(GetParam(), TableOf(GetParam(), start.distortion));
    EXPECT_LE(rounds.RestUntilCertain(), 200) << start.name;
    EXPECT_LE(rounds.LargestError(kMaxRows), 0.35) << start.name << "\n"
                                                   << rounds.Show();
  }
}

INSTANTIATE_TEST_SUITE_P(Machines, CostUpkeepTest,
                         testing::Values(Machine(), kWide, kNarrow));

}  // namespace
}  // namespace espalier::verifier
