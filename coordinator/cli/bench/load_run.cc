#include "coordinator/cli/bench/load_run.h"

#include <atomic>
#include <ostream>
#include <random>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/base/secret_number.h"

namespace espalier::cli {
namespace {

// Sends one request and records the times of its messages.
LoadSample Ask(const v1::GenerateRequest& request, absl::Time due,
               const CallOptions& call, const Generate& generate) {
  LoadSample sample;
  absl::Time last = absl::InfinitePast();
  const auto answer = generate(request, call, [&](const std::string&) {
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

// Arrival times, from the beginning of a turn.
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
  int64_t num_requests = 0;
  std::vector<absl::Duration> arrivals = {};  // of an open loop: of each
};

// One mode's requests of one turn.
class TurnRun {
 public:
  TurnRun(const LoadPlan& plan, const BenchMode& mode, const Turn& turn,
          const Generate& generate, Context& context)
      : plan_(plan),
        mode_(mode),
        turn_(turn),
        generate_(generate),
        context_(context),
        seen_(turn.num_requests) {}

  // Returns the samples once all requests are answered.
  std::vector<LoadSample> Run() {
    if (turn_.arrivals.empty()) {
      RunClosed();
    } else {
      RunOpen();
    }
    return std::move(seen_);
  }

 private:
  void RunOpen() {
    const absl::Time start = absl::Now();
    std::vector<std::jthread> threads;
    for (int64_t i = 0; i < turn_.num_requests; ++i) {
      const absl::Time due = start + turn_.arrivals[i];
      absl::SleepFor(due - absl::Now());
      if (context_.interrupt.stop_requested()) return;
      threads.emplace_back([this, i, due] { AskFor(i, due); });
    }
  }

  void RunClosed() {
    std::atomic<int64_t> next = 0;
    std::vector<std::jthread> threads;
    for (int64_t i = 0; i < plan_.concurrency; ++i) {
      threads.emplace_back([this, &next] {
        for (int64_t mine = next++; mine < turn_.num_requests; mine = next++) {
          if (context_.interrupt.stop_requested()) return;
          AskFor(mine, absl::Now());
        }
      });
    }
  }

  void AskFor(int64_t i, absl::Time due) {
    const uint64_t index = turn_.first_request + i;
    v1::GenerateRequest request =
        plan_.prompts[index % plan_.prompts.size()].request;
    request.set_temperature(plan_.temperature);
    request.set_seed(plan_.seed + index);
    request.set_max_tokens(plan_.max_tokens);
    request.set_cache_salt(salt_);
    mode_.ApplyTo(*request.mutable_speculation());
    seen_[i] = Ask(request, due,
                   {.timeout = plan_.timeout, .interrupt = context_.interrupt},
                   generate_);
  }

  // Prompts share their work within a turn, as in production, and not with the
  // turn of another mode.
  const std::string salt_ = absl::StrCat(SecretNumber());
  const LoadPlan& plan_;
  const BenchMode& mode_;
  const Turn& turn_;
  const Generate& generate_;
  Context& context_;
  std::vector<LoadSample> seen_;  // each written by its own thread
};

Turn MakeTurn(const LoadPlan& plan, int64_t turn) {
  const int64_t begin = plan.requests * turn / plan.turns;
  const int64_t end = plan.requests * (turn + 1) / plan.turns;
  Turn made = {.first_request = begin, .num_requests = end - begin};
  if (plan.concurrency == 0) {
    made.arrivals = Arrivals(plan.rate, end - begin, plan.seed + turn);
  }
  return made;
}

// Shows progress: the percentiles come only at the end.
void ReportTurn(const LoadPlan& plan, int64_t turn, const BenchMode& mode,
                const std::vector<LoadSample>& samples, absl::Duration span,
                Context& context) {
  const LoadRow row = Summarize(samples, span, plan.target);
  context.err << absl::StreamFormat(
                     "turn %d of %d, %s: %d requests in %.1f s, %.1f tokens/s",
                     turn + 1, plan.turns, mode.name, row.requests,
                     absl::ToDoubleSeconds(span), row.tokens_per_s)
              << std::endl;
}

// Reports why requests failed; a refusal by a full server is not a failure.
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
                                             const Generate& generate,
                                             Context& context) {
  std::vector<std::vector<LoadSample>> samples(plan.modes.size());
  std::vector<absl::Duration> spans(plan.modes.size());
  for (int64_t turn = 0; turn < plan.turns; ++turn) {
    const Turn requests = MakeTurn(plan, turn);
    for (size_t m = 0; m < plan.modes.size(); ++m) {
      const absl::Time start = absl::Now();
      const std::vector<LoadSample> seen =
          TurnRun(plan, plan.modes[m], requests, generate, context).Run();
      const absl::Duration span = absl::Now() - start;
      if (context.interrupt.stop_requested()) {
        return absl::CancelledError("interrupted");
      }
      ReportTurn(plan, turn, plan.modes[m], seen, span, context);
      spans[m] += span;
      samples[m].insert(samples[m].end(), seen.begin(), seen.end());
    }
  }
  std::vector<LoadRow> rows;
  for (size_t m = 0; m < plan.modes.size(); ++m) {
    LoadRow& row =
        rows.emplace_back(Summarize(samples[m], spans[m], plan.target));
    row.mode = plan.modes[m].name;
    row.rate = plan.concurrency > 0 ? 0 : plan.rate;
    row.concurrency = plan.concurrency;
    ReportFailure(plan.modes[m], samples[m], context);
  }
  return rows;
}

}  // namespace espalier::cli
