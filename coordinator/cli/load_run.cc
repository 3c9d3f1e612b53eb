#include "coordinator/cli/load_run.h"

#include <algorithm>
#include <ostream>
#include <random>
#include <thread>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"

namespace espalier::cli {
namespace {

// Asks once and writes down what came when.
LoadSample Ask(const v1::GenerateRequest& request, absl::Time due,
               const CallOptions& call, InferenceClient& client) {
  LoadSample sample;
  absl::Time last = absl::InfinitePast();
  const auto answer = client.Generate(request, call, [&](const std::string&) {
    const absl::Time now = absl::Now();
    if (last == absl::InfinitePast()) {
      sample.first_token = now - due;
    } else {
      sample.gaps.push_back(now - last);
    }
    last = now;
    return true;
  });
  sample.total = absl::Now() - due;
  sample.status = answer.status();
  if (answer.ok()) {
    sample.tokens = static_cast<int64_t>(answer->token_ids.size());
    sample.rounds = answer->summary.spec_stats().num_spec_steps();
  }
  return sample;
}

// When requests arrive, from the beginning of a turn.
std::vector<absl::Duration> Arrivals(double rate, int64_t count,
                                     uint64_t seed) {
  std::mt19937_64 random(seed);
  std::exponential_distribution<double> pause(rate);
  std::vector<absl::Duration> arrivals;
  absl::Duration at;
  for (int64_t i = 0; i < count; ++i) {
    arrivals.push_back(at);
    at += absl::Seconds(pause(random));
  }
  return arrivals;
}

struct Turn {
  int64_t first_request = 0;
  std::vector<absl::Duration> arrivals;
};

// One mode's requests of one turn; returns how long they took together.
absl::Duration RunTurn(const LoadPlan& plan, const BenchMode& mode,
                       const Turn& turn, InferenceClient& client,
                       Context& context, std::vector<LoadSample>& samples) {
  const CallOptions call = {.timeout = plan.timeout,
                            .interrupt = context.interrupt};
  const absl::Time start = absl::Now();
  std::vector<LoadSample> seen(turn.arrivals.size());
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < seen.size(); ++i) {
      const absl::Time due = start + turn.arrivals[i];
      absl::SleepFor(due - absl::Now());
      if (context.interrupt.stop_requested()) break;
      const uint64_t index = turn.first_request + i;
      v1::GenerateRequest request =
          plan.prompts[index % plan.prompts.size()].request;
      request.set_temperature(plan.temperature);
      request.set_seed(plan.seed + index);
      request.set_max_tokens(plan.max_tokens);
      mode.ApplyTo(*request.mutable_speculation());
      threads.emplace_back([&, i, due, request = std::move(request)] {
        seen[i] = Ask(request, due, call, client);
      });
    }
  }  // all are answered
  samples.insert(samples.end(), seen.begin(), seen.end());
  return absl::Now() - start;
}

// Why requests failed; a server that was full is no failure.
void ReportFailure(const BenchMode& mode,
                   const std::vector<LoadSample>& samples, Context& context) {
  for (const LoadSample& sample : samples) {
    if (sample.status.ok() || IsRefusal(sample.status)) continue;
    context.err << mode.name << ": " << sample.status.message() << "\n";
    return;
  }
}

}  // namespace

absl::StatusOr<std::vector<LoadRow>> RunLoad(const LoadPlan& plan,
                                             InferenceClient& client,
                                             Context& context) {
  std::vector<std::vector<LoadSample>> samples(plan.modes.size());
  std::vector<absl::Duration> spans(plan.modes.size());
  for (int64_t turn = 0; turn < plan.turns; ++turn) {
    const int64_t begin = plan.requests * turn / plan.turns;
    const int64_t end = plan.requests * (turn + 1) / plan.turns;
    const Turn requests = {
        .first_request = begin,
        .arrivals = Arrivals(plan.rate, end - begin, plan.seed + turn)};
    for (size_t m = 0; m < plan.modes.size(); ++m) {
      if (context.err_is_terminal) {
        context.err << absl::StreamFormat("turn %d of %d, %s\n", turn + 1,
                                          plan.turns, plan.modes[m].name)
                    << std::flush;
      }
      spans[m] +=
          RunTurn(plan, plan.modes[m], requests, client, context, samples[m]);
      if (context.interrupt.stop_requested()) {
        return absl::CancelledError("interrupted");
      }
    }
  }
  std::vector<LoadRow> rows;
  for (size_t m = 0; m < plan.modes.size(); ++m) {
    LoadRow& row =
        rows.emplace_back(Summarize(samples[m], spans[m], plan.target));
    row.mode = plan.modes[m].name;
    row.rate = plan.rate;
    ReportFailure(plan.modes[m], samples[m], context);
  }
  return rows;
}

}  // namespace espalier::cli
