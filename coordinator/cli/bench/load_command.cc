#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/config/flag_set.h"
#include "coordinator/cli/bench/load_run.h"
#include "coordinator/cli/bench/load_table.h"
#include "coordinator/cli/bench/suite_flags.h"
#include "coordinator/cli/client_commands.h"
#include "coordinator/cli/flags/endpoint_flags.h"
#include "coordinator/cli/http_client.h"

namespace espalier::cli {
namespace {

constexpr char kLoadUsage[] =
    R"(Usage: espalier load [--rate R | --concurrency N] [--requests N] [FLAGS]

Sends requests at random times, R per second on average, whether or not earlier
ones are answered (an open loop), or keeps N in flight (a closed loop). Each
mode (see `espalier bench`) gets the same prompts, seeds and times. The modes
take turns; the end of each turn is reported on standard error.

Times are p50/p95/p99 as measured by the client, from the time when a request
was due: first token; gap between messages (each brings several tokens); per
token after the first message; total. good: the first token and the time per
token met --first-token-ms and --per-token-ms. goodput: good requests per
second. refused: the server was full. Seconds are from the first request of a
turn to its last answer. With --http, the requests are OpenAI's, over HTTP, to a
server that asks for no key.)";

struct LoadFlags {
  EndpointFlags endpoint;
  std::optional<std::string> http;
  SuiteFlags suites;
  std::vector<std::string> modes = {"plain", "budgeted"};
  LoadPlan plan;  // without modes and prompts
  bool json = false;

  void AddTo(FlagSet& flags, const Places& places);
};

void LoadFlags::AddTo(FlagSet& flags, const Places& places) {
  flags.Add({"--rate", "R", "arrivals per second; default 1"}, &plan.rate);
  flags.Add({"--concurrency", "N", "requests in flight, instead of --rate"},
            &plan.concurrency);
  flags.Add({"--requests", "N", "requests per mode; default 20"},
            &plan.requests);
  flags.Add({"--turns", "N", "turns per mode; default 2"}, &plan.turns);
  flags.Add({"--modes", "A,B", "default plain,budgeted"}, &modes);
  suites.AddTo(flags);
  flags.Add({"--temperature", "T", "default 0"}, &plan.temperature);
  flags.Add({"--max-tokens", "N", "most tokens of an answer; default 128"},
            &plan.max_tokens);
  flags.Add({"--seed", "S", "seed of arrivals and requests; default 1"},
            &plan.seed);
  const auto add_limit = [&flags](FlagSpec spec, absl::Duration& limit) {
    flags.AddSetter<uint32_t>(std::move(spec), [&limit](uint32_t ms) {
      limit = absl::Milliseconds(ms);
    });
  };
  add_limit({"--first-token-ms", "MS", "limit of a good answer; default 2000"},
            plan.target.first_token);
  add_limit({"--per-token-ms", "MS", "limit of a good answer; default 100"},
            plan.target.per_token);
  flags.Add({"--timeout", "SECONDS", "limit of one answer; default 600"},
            &plan.timeout);
  endpoint.AddTo(flags, places);
  flags.Add({"--http", "URL", "http://HOST:PORT, in place of --address"},
            &http);
  flags.AddSwitch({"--json", "", "one JSON object per mode"}, &json);
}

absl::StatusOr<LoadPlan> MakePlan(const LoadFlags& flags, Context& context) {
  LoadPlan plan = flags.plan;
  if (!(plan.rate > 0)) {
    return absl::InvalidArgumentError("--rate: must be above 0");
  }
  if (plan.turns == 0 || plan.requests < plan.turns) {
    return absl::InvalidArgumentError(
        "--requests: at least one for each of --turns");
  }
  ASSIGN_OR_RETURN(plan.modes, ParseBenchModes(flags.modes));
  ASSIGN_OR_RETURN(auto suites, flags.suites.Load(context));
  for (PromptSuite& suite : suites) {
    for (SuitePrompt& prompt : suite.prompts) {
      plan.prompts.push_back(std::move(prompt));
    }
  }
  return plan;
}

absl::StatusOr<std::vector<LoadRow>> RunAt(
    const LoadFlags& flags, const LoadPlan& plan,
    const LocalClusterFactory& local_cluster, Context& context) {
  if (flags.http) {
    if (flags.endpoint.is_chosen()) {
      return absl::InvalidArgumentError(
          "--http excludes --address and --local");
    }
    const auto client = HttpClient::Create(*flags.http);
    if (!client.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--http: ", client.status().message()));
    }
    return RunLoad(plan, std::bind_front(&HttpClient::Generate, client->get()),
                   context);
  }
  ASSIGN_OR_RETURN(const Endpoint endpoint,
                   flags.endpoint.Open(context.places, local_cluster));
  return RunLoad(
      plan, std::bind_front(&InferenceClient::Generate, endpoint.client.get()),
      context);
}

absl::Status Load(const LocalClusterFactory& local_cluster, Context& context,
                  Args args) {
  LoadFlags flags;
  FlagSet flag_set(kLoadUsage);
  flags.AddTo(flag_set, context.places);
  ASSIGN_OR_RETURN(const bool parsed, flag_set.Parse(args, context.out));
  if (!parsed) return absl::OkStatus();

  ASSIGN_OR_RETURN(const LoadPlan plan, MakePlan(flags, context));
  ASSIGN_OR_RETURN(const auto rows, RunAt(flags, plan, local_cluster, context));
  if (!flags.json) {
    context.out << LoadTable(rows);
    return absl::OkStatus();
  }
  for (const LoadRow& row : rows) context.out << ToJson(row) << "\n";
  return absl::OkStatus();
}

}  // namespace

Command LoadCommand(LocalClusterFactory local_cluster) {
  return {.name = "load",
          .summary = "load-test a server: latencies, goodput, tau",
          .run = [local_cluster = std::move(local_cluster)](
                     Context& context,
                     Args args) { return Load(local_cluster, context, args); },
          .interruptible = true};
}

}  // namespace espalier::cli
