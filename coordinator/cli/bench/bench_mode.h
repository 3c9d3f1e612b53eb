#ifndef ESPALIER_COORDINATOR_CLI_BENCH_BENCH_MODE_H_
#define ESPALIER_COORDINATOR_CLI_BENCH_BENCH_MODE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "espalier/v1/inference.pb.h"

namespace espalier::cli {

// A way of decoding in a benchmark: "plain", or a strategy ("union"), which may
// name its drafters, its nodes and the verification rule ("single:lookup",
// "union:lookup+bigram@8", "single:draws/lvseq-gr").
struct BenchMode {
  std::string name;                        // as given
  std::string strategy = {};               // empty: plain decoding
  std::vector<std::string> drafters = {};  // empty: all
  std::optional<uint32_t> nodes = {};      // unset: the benchmark's
  std::optional<std::string> rule = {};    // unset: auto

  bool is_plain() const { return strategy.empty(); }
  void ApplyTo(v1::SpeculationOptions& options) const;
};

// INVALID_ARGUMENT: no mode, a repeated mode, or an invalid one.
absl::StatusOr<std::vector<BenchMode>> ParseBenchModes(
    const std::vector<std::string>& names);

}  // namespace espalier::cli

#endif  // ESPALIER_COORDINATOR_CLI_BENCH_BENCH_MODE_H_
