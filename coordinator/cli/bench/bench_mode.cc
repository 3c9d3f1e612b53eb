#include "coordinator/cli/bench/bench_mode.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status_macros.h"

namespace espalier::cli {
namespace {

absl::StatusOr<BenchMode> ParseBenchMode(const std::string& name) {
  BenchMode mode{.name = name};
  if (name == "plain") return mode;
  const size_t slash = name.find('/');
  if (slash != std::string::npos) mode.rule = name.substr(slash + 1);
  const std::string how = name.substr(0, slash);
  const size_t at = how.find('@');
  uint32_t nodes = 0;
  const bool good_nodes =
      at == std::string::npos || absl::SimpleAtoi(how.substr(at + 1), &nodes);
  if (at != std::string::npos) mode.nodes = nodes;
  const std::string who = how.substr(0, at);
  const size_t colon = who.find(':');
  mode.strategy = who.substr(0, colon);
  if (colon != std::string::npos) {
    mode.drafters = absl::StrSplit(who.substr(colon + 1), '+');
  }
  const bool empty_drafter =
      std::find(mode.drafters.begin(), mode.drafters.end(), "") !=
      mode.drafters.end();
  if (mode.strategy.empty() || mode.strategy == "plain" || empty_drafter ||
      !good_nodes || mode.rule == "") {
    return absl::InvalidArgumentError(absl::StrCat(
        "--modes: \"", name,
        "\" is not plain or STRATEGY[:DRAFTER+DRAFTER][@NODES][/RULE]"));
  }
  return mode;
}

}  // namespace

void BenchMode::ApplyTo(v1::SpeculationOptions& options) const {
  options.set_enabled(!is_plain());
  if (is_plain()) return;
  options.set_strategy(strategy);
  if (nodes) options.set_max_nodes(*nodes);
  if (rule) options.set_rule(*rule);
  options.mutable_drafters()->Assign(drafters.begin(), drafters.end());
}

absl::StatusOr<std::vector<BenchMode>> ParseBenchModes(
    const std::vector<std::string>& names) {
  std::vector<BenchMode> modes;
  for (const std::string& name : names) {
    const auto same = [&](const BenchMode& mode) { return mode.name == name; };
    if (std::any_of(modes.begin(), modes.end(), same)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--modes: \"", name, "\" is there twice"));
    }
    ASSIGN_OR_RETURN(BenchMode mode, ParseBenchMode(name));
    modes.push_back(std::move(mode));
  }
  if (modes.empty()) return absl::InvalidArgumentError("--modes: none given");
  return modes;
}

}  // namespace espalier::cli
