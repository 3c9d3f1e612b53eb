#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/config/flag_set.h"
#include "coordinator/cli/bench/bench_mode.h"
#include "coordinator/cli/bench/bench_run.h"
#include "coordinator/cli/bench/prompt_suite.h"
#include "coordinator/cli/bench/suite_flags.h"
#include "coordinator/cli/client_commands.h"
#include "coordinator/cli/flags/endpoint_flags.h"

namespace espalier::cli {
namespace {

constexpr char kBenchUsage[] =
    R"(Usage: espalier bench [--suite A,B | --prompts FILE.jsonl] [FLAGS]

Compares ways of decoding on prompt suites. A mode is "plain" or a strategy. A
strategy may name drafters, nodes and a verification rule: "single:lookup",
"union:lookup+bigram@8", "single:draws@16/lvseq-gr". The modes alternate prompt
by prompt, with the same seeds.

tau: emitted tokens per verification. tokens/s: after the first message of a
stream. speedup: relative to plain in this run, with one standard error, which
follows from how much it differs between the prompts; "~": within two of them of
1, so it may be noise. nodes: mean number of verified nodes per round. same: prompts with the same text as plain; the others are named
on standard error. Second line: milliseconds of each stage of a round (verify
includes the prefill); repeat: fraction of the answers' 4-grams that appeared
before (loops are easy to draft). After several suites come the rows of them
all.)";

struct BenchFlags {
  EndpointFlags endpoint;
  SuiteFlags suites;
  std::vector<std::string> modes = {"plain", "budgeted"};
  BenchPlan plan;  // without modes
  bool json = false;

  void AddTo(FlagSet& flags, const Places& places);
};

void BenchFlags::AddTo(FlagSet& flags, const Places& places) {
  suites.AddTo(flags);
  flags.Add({"--modes", "A,B", "default plain,budgeted"}, &modes);
  flags.Add({"--temperature", "T,T", "default 0"}, &plan.temperatures);
  flags.Add({"--nodes", "N", "most draft tokens per verification"},
            &plan.nodes);
  flags.Add({"--max-tokens", "N", "most tokens of an answer; default 128"},
            &plan.max_tokens);
  flags.AddSetter<uint32_t>({"--limit", "N", "prompts per suite; default all"},
                            [this](uint32_t n) { plan.limit = n; });
  flags.Add({"--seed", "S", "seed of the first prompt; default 1"}, &plan.seed);
  flags.Add({"--timeout", "SECONDS", "limit of one answer; default 600"},
            &plan.timeout);
  endpoint.AddTo(flags, places);
  flags.AddSwitch({"--json", "", "one JSON object for each row"}, &json);
}

absl::StatusOr<BenchPlan> MakePlan(const BenchFlags& flags) {
  BenchPlan plan = flags.plan;
  if (plan.limit == 0) {
    return absl::InvalidArgumentError("--limit: must be above 0");
  }
  ASSIGN_OR_RETURN(plan.modes, ParseBenchModes(flags.modes));
  return plan;
}

absl::Status RunBench(const LocalClusterFactory& local_cluster,
                      Context& context, Args args) {
  BenchFlags flags;
  FlagSet flag_set(kBenchUsage);
  flags.AddTo(flag_set, context.places);
  ASSIGN_OR_RETURN(const bool parsed, flag_set.Parse(args, context.out));
  if (!parsed) return absl::OkStatus();

  ASSIGN_OR_RETURN(const BenchPlan plan, MakePlan(flags));
  ASSIGN_OR_RETURN(const Endpoint endpoint,
                   flags.endpoint.Open(context.places, local_cluster));
  ASSIGN_OR_RETURN(const std::vector<PromptSuite> suites,
                   flags.suites.Load(context));
  BenchRun run(plan, *endpoint.client, context);
  if (!flags.json) context.out << BenchTableHeader() << std::endl;
  bool has_noise = false;
  const auto print = [&](const std::vector<BenchRow>& rows) {
    for (const BenchRow& row : rows) {
      has_noise |= IsNoise(row);
      context.out << (flags.json ? ToJson(row) : ToTableLine(row)) << std::endl;
    }
  };
  for (const PromptSuite& suite : suites) {
    ASSIGN_OR_RETURN(const std::vector<BenchRow> rows, run.Run(suite));
    print(rows);
  }
  if (suites.size() > 1) print(run.RowsOfAll());
  if (has_noise && !flags.json) {
    context.out << "~ noise: within two standard errors of 1" << std::endl;
  }
  return absl::OkStatus();
}

}  // namespace

Command BenchCommand(LocalClusterFactory local_cluster) {
  return {.name = "bench",
          .summary = "compare ways of decoding on prompt suites",
          .run = [factory = std::move(local_cluster)](
                     Context& context,
                     Args args) { return RunBench(factory, context, args); },
          .interruptible = true};
}

}  // namespace espalier::cli
