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
  float rate = 1;
  uint32_t concurrency = 0;
  uint32_t requests = 20;
  uint32_t turns = 2;
  uint32_t max_tokens = 128;
  float temperature = 0;
  uint64_t seed = 1;
  uint32_t first_token_ms = 2000;
  uint32_t per_token_ms = 100;
  absl::Duration timeout = absl::Minutes(10);
  bool json = false;

  void AddTo(FlagSet& flags, const Places& places);
};

void LoadFlags::AddTo(FlagSet& flags, const Places& places) {
  flags.Add({"--rate", "R", "arrivals per second; default 1"}, &rate);
  flags.Add({"--concurrency", "N", "requests in flight, instead of --rate"},
            &concurrency);
  flags.Add({"--requests", "N", "requests per mode; default 20"}, &requests);
  flags.Add({"--turns", "N", "turns per mode; default 2"}, &turns);
  flags.Add({"--modes", "A,B", "default plain,budgeted"}, &modes);
  suites.AddTo(flags);
  flags.Add({"--temperature", "T", "default 0"}, &temperature);
  flags.Add({"--max-tokens", "N", "most tokens of an answer; default 128"},
            &max_tokens);
  flags.Add({"--seed", "S", "seed of arrivals and requests; default 1"}, &seed);
  flags.Add({"--first-token-ms", "MS", "limit of a good answer; default 2000"},
            &first_token_ms);
  flags.Add({"--per-token-ms", "MS", "limit of a good answer; default 100"},
            &per_token_ms);
  flags.Add({"--timeout", "SECONDS", "limit of one answer; default 600"},
            &timeout);
  endpoint.AddTo(flags, places);
  flags.Add({"--http", "URL", "http://HOST:PORT, in place of --address"},
            &http);
  flags.AddSwitch({"--json", "", "one JSON object per mode"}, &json);
}

absl::StatusOr<LoadPlan> MakePlan(const LoadFlags& flags, Context& context) {
  if (!(flags.rate > 0)) {
    return absl::InvalidArgumentError("--rate: must be above 0");
  }
  if (flags.turns == 0 || flags.requests < flags.turns) {
    return absl::InvalidArgumentError(
        "--requests: at least one for each of --turns");
  }
  LoadPlan plan = {
      .rate = flags.rate,
      .concurrency = flags.concurrency,
      .requests = flags.requests,
      .turns = flags.turns,
      .max_tokens = flags.max_tokens,
      .temperature = flags.temperature,
      .seed = flags.seed,
      .target = {.first_token = absl::Milliseconds(flags.first_token_ms),
                 .per_token = absl::Milliseconds(flags.per_token_ms)},
      .timeout = flags.timeout};
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
