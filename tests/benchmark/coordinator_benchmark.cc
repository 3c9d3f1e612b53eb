// What a round costs the coordinator: its executor's thread alone, with
// scripted peers, no model and no wire. The peers answer on a clock that jumps
// from event to event, so that rounds wait, go on and overlap as in service,
// and the machine works on nothing but the coordinator and the script.
//
//   rounds/s       that one core coordinates, the script's own time included
//   us/round       of the coordinator alone: the script's time is taken off
//   drafts, nodes, tokens  that a round asks for, verifies and emits
//
// All are of the thread's CPU time, so that others on the machine disturb them
// through its caches alone. The drafters of "every" answer almost at once, so
// all four are asked in every round, which is the most work per round. Those of
// "chosen" need some milliseconds, so the coordinator asks a few of them.

#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/executor.h"
#include "coordinator/merge/merge_policies.h"
#include "coordinator/rounds/coordinator.h"
#include "prometheus/registry.h"

namespace espalier::coordinator {
namespace {

constexpr int64_t kVocab = 32'000;
constexpr int kDrafters = 4;
constexpr int64_t kPromptTokens = 64;
constexpr int64_t kMaxTokens = 256;
constexpr int64_t kMeasuredRounds = 10'000;

// One thread, whose clock jumps to the next task.
class JumpingExecutor final : public Executor {
 public:
  void Post(Task task) override { due_.push_back(std::move(task)); }
  Timer PostAt(absl::Time when, Task task) override {
    const Timer timer = {.when = when, .order = order_++};
    later_.emplace(timer, std::move(task));
    return timer;
  }
  void Cancel(const Timer& timer) override { later_.erase(timer); }
  absl::Time Now() const override { return now_; }

  // Runs the next task. REQUIRES: there is one.
  void RunOne() {
    if (due_.empty()) {
      const auto first = later_.begin();
      now_ = std::max(now_, first->first.when);
      due_.push_back(std::move(first->second));
      later_.erase(first);
    }
    Task task = std::move(due_.front());
    due_.pop_front();
    std::move(task)();
  }

 private:
  absl::Time now_ = absl::FromUnixSeconds(1'000'000'000);
  uint64_t order_ = 0;
  std::deque<Task> due_;
  std::map<Timer, Task> later_;
};

uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 31)) * 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 29)) * 0xBF58476D1CE4E5B9;
  return x ^ (x >> 32);
}

// Returns what the target emits at a position of a sequence.
TokenId TokenAt(uint64_t sequence, int64_t position) {
  return static_cast<TokenId>(Mix(sequence * 1'000'003 + position) % kVocab);
}

double CpuSeconds() {
  timespec time;
  ESPALIER_CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) == 0);
  return static_cast<double>(time.tv_sec) +
         1e-9 * static_cast<double>(time.tv_nsec);
}

// Sums the time of the scripted peers.
struct ScriptTime {
  double seconds = 0;
};
class ScriptTimer {
 public:
  explicit ScriptTimer(ScriptTime* time) : time_(*time) {}
  ~ScriptTimer() { time_.seconds += CpuSeconds() - begin_; }

 private:
  ScriptTime& time_;
  const double begin_ = CpuSeconds();
};

// Proposes a chain with a second choice beside each of its nodes; how far the
// chain is right depends on drafter and position.
class ScriptedDrafter final : public DraftEndpoint {
 public:
  ScriptedDrafter(JumpingExecutor* executor, ScriptTime* time, int index,
                  absl::Duration answers_after)
      : executor_(*executor),
        time_(*time),
        index_(index),
        answers_after_(answers_after) {}

  void Propose(ProposeRequest request, absl::Time /*deadline*/,
               OnPartial /*on_partial*/, Done<Proposal> done) override {
    Proposal proposal;
    {
      const ScriptTimer timer(&time_);
      proposal = Draft(request);
      ++num_drafts_;
    }
    proposal.compute_time = answers_after_;
    executor_.PostAt(
        executor_.Now() + answers_after_,
        [proposal = std::move(proposal), done = std::move(done)]() mutable {
          std::move(done)(std::move(proposal));
        });
  }
  void EndSequence(SequenceId /*sequence*/) override {}

  int64_t num_drafts() const { return num_drafts_; }

 private:
  Proposal Draft(const ProposeRequest& request) const {
    const SequenceUpdate& update = request.update;
    const uint64_t sequence = update.sequence.number;
    const int64_t length = update.committed_length();
    // The text is a function of sequence and position, so the tree continues it
    // after the lookahead tokens.
    const int64_t begin =
        length + static_cast<int64_t>(request.lookahead.size());
    const TokenId root = request.lookahead.empty() ? update.new_tokens.back()
                                                   : request.lookahead.back();
    Proposal proposal = {.round = update.round,
                         .committed_length = length,
                         .tree = TokenTree::RootOnly(root)};
    TokenTree& tree = proposal.tree;
    const uint64_t luck = Mix(sequence * 31 + begin * 7 + index_);
    const int64_t right = static_cast<int64_t>(luck % (2 + index_));
    int32_t parent = 0;
    for (int64_t i = 0; i < request.budget.max_depth; ++i) {
      if (tree.num_nodes() > request.budget.max_nodes) break;
      const TokenId said = TokenAt(sequence, begin + i);
      const TokenId other = static_cast<TokenId>((said + 1 + index_) % kVocab);
      const float above = tree.log_probs[parent];
      const bool is_right = i < right;
      const int32_t next =
          tree.Add(parent, is_right ? said : other, above - 0.3f);
      if (tree.num_nodes() <= request.budget.max_nodes) {
        tree.Add(parent, is_right ? other : said, above - 1.6f);
      }
      parent = next;
    }
    return proposal;
  }

  JumpingExecutor& executor_;
  ScriptTime& time_;
  const int index_;
  const absl::Duration answers_after_;
  int64_t num_drafts_ = 0;
};

class ScriptedVerifier final : public VerifyEndpoint {
 public:
  ScriptedVerifier(JumpingExecutor* executor, ScriptTime* time)
      : executor_(*executor), time_(*time) {}

  static absl::Duration PassOf(int64_t rows) {
    return absl::Microseconds(20'000 + 5 * rows);
  }
  static PassCosts Costs() {
    PassCosts costs;
    for (int64_t rows : {1, 2, 4, 8, 16, 32, 64}) {
      costs.push_back({rows, PassOf(rows)});
    }
    return costs;
  }

  void Verify(VerifyRequest request, absl::Time /*deadline*/,
              Done<VerifyResult> done) override {
    VerifyResult verify_result;
    {
      const ScriptTimer timer(&time_);
      verify_result = Decide(request);
      ++num_rounds_;
      num_nodes_ += request.tree.num_nodes() - 1;
      num_tokens_ += static_cast<int64_t>(verify_result.tokens.size());
    }
    const absl::Duration time = PassOf(request.tree.num_nodes());
    verify_result.timings.forward = time;
    executor_.PostAt(executor_.Now() + time,
                     [verify_result = std::move(verify_result),
                      done = std::move(done)]() mutable {
                       std::move(done)(std::move(verify_result));
                     });
  }
  void EndSequence(SequenceId /*sequence*/) override {}

  int64_t num_rounds() const { return num_rounds_; }
  int64_t num_nodes() const { return num_nodes_; }
  int64_t num_tokens() const { return num_tokens_; }

 private:
  static VerifyResult Decide(const VerifyRequest& request) {
    const TokenTree& tree = request.tree;
    const uint64_t sequence = request.update.sequence.number;
    int64_t position = request.update.committed_length();
    VerifyResult verify_result = {.round = request.update.round,
                                  .rule = "walk"};
    for (int32_t node = 0;; ++position) {
      verify_result.tokens.push_back(TokenAt(sequence, position));
      node = tree.ChildWith(node, verify_result.tokens.back());
      if (node == TokenTree::kNoChild) break;
      verify_result.path.push_back(node);
    }
    verify_result.pass_costs = Costs();
    return verify_result;
  }

  JumpingExecutor& executor_;
  ScriptTime& time_;
  int64_t num_rounds_ = 0;
  int64_t num_nodes_ = 0;
  int64_t num_tokens_ = 0;
};

// Starts the next request when one is finished.
class Load {
 public:
  Load(int64_t sessions, std::string strategy, bool chosen)
      : strategy_(std::move(strategy)), verifier_(&executor_, &script_time_) {
    RegisterMergePolicies(policies_);
    Coordinator::Options options;
    for (int i = 0; i < kDrafters; ++i) {
      drafters_.push_back(std::make_unique<ScriptedDrafter>(
          &executor_, &script_time_, i,
          absl::Microseconds(chosen ? 100 + 1500 * i : 50 + 10 * i)));
      options.drafters.push_back(
          {.name = absl::StrCat("d", i),
           .endpoint = drafters_[i].get(),
           .info = [] { return DrafterInfo{.supports_lookahead = true}; }});
    }
    options.executor = &executor_;
    options.verifier = &verifier_;
    options.verifier_info = [] {
      VerifierInfo info;
      info.model = {.name = "script", .vocab_size = kVocab};
      info.max_context = 1'000'000;
      info.max_tree_nodes = 64;
      info.rules = {"walk"};
      info.pass_costs = ScriptedVerifier::Costs();
      return info;
    };
    options.policies = &policies_;
    options.metrics = &metrics_;
    options.model = "script";
    options.max_sessions = sessions;
    auto made = Coordinator::Create(std::move(options));
    ESPALIER_CHECK(made.ok());
    coordinator_ = *std::move(made);
    for (int64_t i = 0; i < sessions; ++i) Start();
  }

  ~Load() {
    stopping_ = true;
    bool done = false;
    coordinator_->Shutdown([&done] { done = true; });
    while (!done) executor_.RunOne();
  }

  void RunRounds(int64_t count) {
    const int64_t end = verifier_.num_rounds() + count;
    while (verifier_.num_rounds() < end) executor_.RunOne();
  }

  // What was done so far.
  struct Done {
    double rounds = 0, drafts = 0, nodes = 0, tokens = 0;
    double seconds = 0, script_seconds = 0;
  };
  Done done() const {
    Done done = {.rounds = static_cast<double>(verifier_.num_rounds()),
                 .nodes = static_cast<double>(verifier_.num_nodes()),
                 .tokens = static_cast<double>(verifier_.num_tokens()),
                 .seconds = CpuSeconds(),
                 .script_seconds = script_time_.seconds};
    for (const auto& drafter : drafters_) {
      done.drafts += static_cast<double>(drafter->num_drafts());
    }
    return done;
  }

 private:
  class Sink final : public TokenSink {
   public:
    explicit Sink(Load* load) : load_(*load) {}
    void OnTokens(const OutputPiece& piece) override {
      benchmark::DoNotOptimize(piece.tokens.data());
    }
    void OnFinish(const absl::Status& status,
                  const GenerationReport& /*report*/) override {
      if (load_.stopping_) return;
      ESPALIER_CHECK(status.ok());
      load_.Start();
    }

   private:
    Load& load_;
  };

  void Start() {
    GenerationRequest request;
    request.request_id = absl::StrCat("r", next_request_++);
    request.prompt.assign(kPromptTokens, 5);
    request.max_tokens = kMaxTokens;
    request.ignore_eos = true;
    request.speculation.strategy = strategy_;
    coordinator_->Start(std::move(request), std::make_unique<Sink>(this));
  }

  const std::string strategy_;
  JumpingExecutor executor_;
  ScriptTime script_time_;
  ScriptedVerifier verifier_;
  std::vector<std::unique_ptr<ScriptedDrafter>> drafters_;
  Registry<MergePolicy> policies_{"strategy"};
  prometheus::Registry metrics_;
  int64_t next_request_ = 0;
  bool stopping_ = false;
  std::unique_ptr<Coordinator> coordinator_;
};

void Rounds(benchmark::State& state, const char* strategy, bool chosen) {
  Load load(state.range(0), strategy, chosen);
  load.RunRounds(std::max<int64_t>(2000, 20 * state.range(0)));  // warm
  const Load::Done before = load.done();
  for (auto _ : state) load.RunRounds(kMeasuredRounds);
  const Load::Done after = load.done();
  const double rounds = after.rounds - before.rounds;
  const double seconds = after.seconds - before.seconds;
  const double script = after.script_seconds - before.script_seconds;
  state.counters["rounds/s"] = rounds / seconds;
  state.counters["us/round"] = 1e6 * (seconds - script) / rounds;
  state.counters["drafts"] = (after.drafts - before.drafts) / rounds;
  state.counters["nodes"] = (after.nodes - before.nodes) / rounds;
  state.counters["tokens"] = (after.tokens - before.tokens) / rounds;
}

void Sessions(benchmark::internal::Benchmark* rounds) {
  rounds->Unit(benchmark::kMillisecond);
  for (int64_t sessions : {1, 8, 64, 256}) rounds->Arg(sessions);
}
BENCHMARK_CAPTURE(Rounds, budgeted_every, "budgeted", false)->Apply(Sessions);
BENCHMARK_CAPTURE(Rounds, budgeted_chosen, "budgeted", true)->Apply(Sessions);
BENCHMARK_CAPTURE(Rounds, union, "union", false)->Apply(Sessions);

}  // namespace
}  // namespace espalier::coordinator

BENCHMARK_MAIN();
