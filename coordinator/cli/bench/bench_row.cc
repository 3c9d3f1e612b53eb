#include "coordinator/cli/bench/bench_row.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/json/ordered_json.h"
#include "nlohmann/json.hpp"

namespace espalier::cli {
namespace {

using Json = nlohmann::ordered_json;

template <typename T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

std::string OrDash(const std::optional<double>& value) {
  return value ? absl::StrFormat("%.2f", *value) : std::string("-");
}

// "1.48 +-0.05": with one standard error; "~1.02 +-0.05": noise.
std::string Speedup(const BenchRow& row) {
  return row.speedup_error
             ? absl::StrFormat("%s%.2f +-%.2f", IsNoise(row) ? "~" : "",
                               *row.speedup, *row.speedup_error)
             : OrDash(row.speedup);
}

std::string SameText(const BenchRow& row) {
  return row.same_text ? absl::StrCat(*row.same_text, "/", row.prompts)
                       : std::string("-");
}

// So that 0.7 is not printed as 0.699999988079071.
double Shortest(float value) {
  return std::stod(absl::StrFormat("%.6g", value));
}

}  // namespace

bool IsNoise(const BenchRow& row) {
  return row.speedup_error &&
         std::abs(*row.speedup - 1) <= 2 * *row.speedup_error;
}

std::string ToJson(const BenchRow& row) {
  const Json json = {
      {"suite", row.suite},
      {"mode", row.mode},
      {"temperature", Shortest(row.temperature)},
      {"nodes", OrNull(row.nodes)},
      {"tau", row.tau},
      {"tokens_per_s", OrNull(row.tokens_per_s)},
      {"speedup", OrNull(row.speedup)},
      {"speedup_error", OrNull(row.speedup_error)},
      {"rounds", row.rounds},
      {"nodes_per_round", row.nodes_per_round},
      {"accepted_at_depth", row.accepted_at_depth},
      {"stage_ms",
       {{"draft", row.stage_ms.draft},
        {"merge", row.stage_ms.merge},
        {"verify", row.stage_ms.verify},
        {"wire", row.stage_ms.wire},
        {"other", row.stage_ms.other}}},
      {"prompts", row.prompts},
      {"same_text", OrNull(row.same_text)},
      {"repetition", row.repetition},
  };
  return ToText(json);
}

std::string BenchTableHeader() {
  return absl::StrFormat("%-9s %-15s %4s %5s %8s %12s %6s %5s %6s", "suite",
                         "mode", "temp", "tau", "tokens/s", "speedup", "rounds",
                         "nodes", "same");
}

std::string ToTableLine(const BenchRow& row) {
  const StageMs& ms = row.stage_ms;
  return absl::StrFormat("%-9s %-15s %4g %5.2f %8s %12s %6d %5.1f %6s\n",
                         row.suite, row.mode, row.temperature, row.tau,
                         OrDash(row.tokens_per_s), Speedup(row), row.rounds,
                         row.nodes_per_round, SameText(row)) +
         absl::StrFormat(
             "  draft %.2f  merge %.2f  verify %.2f  wire %.2f  other %.2f ms; "
             "repeat %.2f",
             ms.draft, ms.merge, ms.verify, ms.wire, ms.other, row.repetition);
}

}  // namespace espalier::cli
