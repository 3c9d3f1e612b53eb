#include "tests/coordinator/control/trace_simulation.h"

#include <algorithm>
#include <bitset>
#include <cmath>
#include <fstream>
#include <iterator>

#include "gtest/gtest.h"

namespace espalier::coordinator {
namespace {

using Attention = DraftCall::Attention;

constexpr double kMergeMs = 0.1;
constexpr int64_t kPromptLength = 60;
constexpr uint32_t kNumSets = 1 << kNumDrafters;

// Returns the chances, with as many children of the root as `top` allows.
TokenTree TreeOf(const MergedTree& merged) {
  TokenTree tree = TokenTree::RootOnly(0);
  double top = 0;
  for (size_t i = 0; i < merged.chances.size(); ++i) {
    const double chance = merged.chances[i];
    const bool child = i == 0 || top + chance <= merged.top + 0.02;
    if (child) top += chance;
    tree.Add(child ? 0 : 1, static_cast<TokenId>(i + 1),
             static_cast<float>(std::log(chance)));
  }
  return tree;
}

int64_t Accepted(const MergedTree& tree, int64_t nodes) {
  const uint32_t kept = (uint32_t{1} << nodes) - 1;
  return static_cast<int64_t>(std::bitset<32>(tree.hits & kept).count());
}

}  // namespace

std::vector<TracedAnswer> ReadTraces(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  const std::string bytes((std::istreambuf_iterator<char>(file)),
                          std::istreambuf_iterator<char>());
  size_t at = 0;
  const auto next = [&] { return static_cast<uint8_t>(bytes.at(at++)); };
  std::vector<TracedAnswer> answers;
  while (at < bytes.size()) {
    const size_t low = next();
    TracedAnswer& answer = answers.emplace_back(low + 256 * next());
    for (auto& position : answer) {
      position.resize(kNumSets);
      for (uint32_t set = 1; set < kNumSets; ++set) {
        MergedTree& tree = position[set];
        tree.chances.resize(next());
        tree.hits = next();
        tree.top = next() / 255.0;
        for (double& chance : tree.chances) chance = std::exp2(next() / -16.0);
      }
    }
  }
  return answers;
}

// A position's round in progress.
struct Simulation::Round {
  const std::vector<MergedTree>& trees;  // by set
  DrafterSet asked = 0;                  // whose trees are there
  DrafterSet late = 0;                   // asked and not awaited
  double ms = kMergeMs;
  double beside_ms = 0;  // computed during the pass
  std::vector<DrafterReturn> returns = std::vector<DrafterReturn>(kNumDrafters);
};

Simulation::Simulation(const MachineSpec& spec, uint64_t seed)
    : spec_(spec), random_(seed), lag_(kNumDrafters) {}

void Simulation::Begin(const std::vector<TracedAnswer>& answers) {
  done_ = 0;
  all_tokens_ = 0;
  for (const TracedAnswer& answer : answers) {
    all_tokens_ += static_cast<double>(answer.size());
  }
  SetTime();
}

// Sets the times of passes that the coordinator is told.
void Simulation::SetTime() {
  const double factor = spec_.slow.Has(done_ / all_tokens_) ? 2 : 1;
  costs_.clear();
  for (size_t i = 0; i < spec_.pass.size(); ++i) {
    const double rows = static_cast<double>(i + 1);
    const double ms =
        rounds_ < spec_.wrong_rows ? spec_.pass[0] * rows : spec_.pass[i];
    costs_.push_back({.rows = static_cast<int64_t>(i) + 1,
                      .time = absl::Milliseconds(ms * factor)});
  }
}

double Simulation::Wait() {
  if (!spec_.busy.Has(done_ / all_tokens_)) return spec_.hop;
  return spec_.hop + std::uniform_real_distribution<double>(1, 4)(random_);
}

double Simulation::PassMs(int64_t rows) {
  const double factor = spec_.slow.Has(done_ / all_tokens_) ? 2 : 1;
  std::normal_distribution<double> jitter(0, 0.04);
  return spec_.pass.at(rows - 1) * factor * std::exp(jitter(random_));
}

double Simulation::ComputeMs(int drafter) {
  const double share = done_ / all_tokens_;
  double ms = spec_.compute[drafter];
  if (drafter != kLookup) {
    ms += spec_.catch_up * static_cast<double>(lag_[drafter]);
  }
  lag_[drafter] = 0;
  if (spec_.slow.Has(share)) ms *= 2;
  if (spec_.busy.Has(share)) ms *= spec_.crowd;
  if (drafter != kLookup && spec_.slow_heads.Has(share)) ms *= 2;
  std::normal_distribution<double> jitter(0, 0.1);
  return ms * std::exp(jitter(random_));
}

// Returns how long the calls that are awaited take together.
double Simulation::Ask(const std::vector<DraftCall>& calls, Round& round) {
  double wait = 0, sum = 0, longest = 0;
  std::vector<int> awaited;
  for (int i = 0; i < kNumDrafters; ++i) {
    if (calls[i].attention == Attention::kNone) continue;
    DrafterReturn& r = round.returns[i];
    const double ms = ComputeMs(i);
    r.attention = calls[i].attention;
    r.compute = absl::Milliseconds(ms);
    r.cpu_group = spec_.own_cores ? 0 : 1;
    r.shares_verifier_cores = !spec_.own_cores;
    if (r.attention == Attention::kAsked) {
      round.late |= DrafterSet{1} << i;
      round.beside_ms = spec_.own_cores ? 0 : round.beside_ms + ms;
      r.waited = absl::Milliseconds(ms);
      continue;
    }
    awaited.push_back(i);
    round.asked |= DrafterSet{1} << i;
    if ((spec_.near >> i & 1) == 0) wait = std::max(wait, Wait());
    sum += ms;
    longest = std::max(longest, ms);
  }
  const double all = wait + (spec_.own_cores ? longest : sum);
  double patience = 0;
  for (int i : awaited) {
    patience += absl::ToDoubleMilliseconds(calls[i].patience);
  }
  for (int i : awaited) {
    DrafterReturn& r = round.returns[i];
    const double ms =
        spec_.own_cores ? absl::ToDoubleMilliseconds(r.compute) + wait : all;
    r.waited = absl::Milliseconds(std::min(ms, patience));
    if (ms <= patience) continue;
    // The round goes on without it; it works on beside the pass.
    r.in_vain = true;
    r.compute = absl::ZeroDuration();
    round.asked &= ~(DrafterSet{1} << i);
    if (!spec_.own_cores) round.beside_ms += (ms - patience) / awaited.size();
  }
  return awaited.empty() ? 0 : std::min(all, patience);
}

// See RoundCredit.
double Simulation::GainOf(const SpeculationControl& control,
                          const MergedTree& merged, bool real) const {
  const TokenTree tree = TreeOf(merged);
  const PayingNodes paying = NodesThatPay(
      absl::MakeConstSpan(tree.log_probs).subspan(1), control.row_cost());
  if (!real) return paying.gain;
  return static_cast<double>(Accepted(merged, paying.nodes)) -
         CostOfNodes(paying.nodes, control.row_cost());
}

void Simulation::Credit(const SpeculationControl& control, Round& round) {
  const DrafterSet used = round.asked;
  const double together = GainOf(control, round.trees[used], true);
  for (int i = 0; i < kNumDrafters; ++i) {
    DrafterReturn& r = round.returns[i];
    const DrafterSet self = DrafterSet{1} << i;
    if (((used | round.late) & self) == 0) continue;
    const MergedTree& own = round.trees[self];
    r.accepted = Accepted(own, static_cast<int64_t>(own.chances.size()));
    double alone = GainOf(control, own, false);
    if (alone <= 0.1) alone = control.GainOfANode(*r.accepted > 0);
    r.gain = {.alone = alone, .beside = alone};
    if ((round.late & self) != 0) {
      r.late = &late_;
      if (used != 0) {
        r.gain.beside = GainOf(control, round.trees[used | self], false) -
                        GainOf(control, round.trees[used], false);
      }
    } else if (used != self) {
      r.gain.beside =
          together - GainOf(control, round.trees[used & ~self], true);
    }
  }
}

void Simulation::Draft(SpeculationControl& control, DrafterSet explored,
                       Round& round) {
  if (explored != 0) {
    std::vector<DraftCall> calls(kNumDrafters, {Attention::kNone});
    for (int i = 0; i < kNumDrafters; ++i) {
      if ((explored >> i & 1) != 0) calls[i].attention = Attention::kAwaited;
    }
    round.ms += Ask(calls, round);
    return;
  }
  round.ms += Ask(control.FirstCalls(), round);
  round.ms +=
      Ask(control.FurtherCalls(TreeOf(round.trees[round.asked])), round);
}

Simulation::Answer Simulation::RunAdaptive(const TracedAnswer& answer,
                                           DrafterSet explored) {
  SpeculationControl control(&record_, /*greedy=*/true, {0, 1, 2, 3}, &costs_,
                             /*explores=*/explored != 0);
  control.Learn({});
  const int64_t length = static_cast<int64_t>(answer.size());
  std::fill(lag_.begin(), lag_.end(), kPromptLength);
  Answer result = {.tokens = length};
  for (int64_t at = 0; at < length;) {
    SetTime();
    Round round = {.trees = answer[at]};
    const bool rests = control.Rests(kPromptLength + at);
    if (!rests) Draft(control, explored, round);
    const double draft_ms = round.ms - kMergeMs;
    TokenTree tree = TreeOf(round.trees[round.asked]);
    if (!rests) control.Cut(tree);
    const int64_t nodes = tree.num_nodes() - 1;
    const double pass_ms = PassMs(nodes + 1);
    round.ms += Wait() + pass_ms + round.beside_ms;
    if (!spec_.own_cores && (round.asked | round.late) > 1) {
      round.ms += spec_.presence;
    }
    const int64_t tokens =
        std::min(length - at, 1 + Accepted(round.trees[round.asked], nodes));
    if (!rests) Credit(control, round);
    const absl::Duration won = control.Learn(
        {.returns = rests ? absl::Span<const DrafterReturn>() : round.returns,
         .num_tokens = tokens,
         .duration = absl::Milliseconds(round.ms),
         .draft_wait = absl::Milliseconds(draft_ms),
         .pass = absl::Milliseconds(pass_ms),
         .num_nodes = nodes});
    result.balance_ms += absl::ToDoubleMilliseconds(won);
    result.ms += round.ms;
    at += tokens;
    Pass(tokens);
  }
  return result;
}

void Simulation::Pass(int64_t tokens) {
  done_ += static_cast<double>(tokens);
  for (int64_t& lag : lag_) lag += tokens;
  ++rounds_;
}

// Each drafter alone, then all (WarmUp).
void Simulation::RunWarmUp(TracedAnswer text) {
  constexpr size_t kTokens = 24;
  text.resize(std::min(text.size(), kTokens));
  for (int i = 0; i < kNumDrafters; ++i) {
    RunAdaptive(text, DrafterSet{1} << i);
  }
  RunAdaptive(text, kNumSets - 1);
}

std::vector<Simulation::Answer> Simulation::Adaptive(
    const std::vector<TracedAnswer>& answers, bool warm_up) {
  Begin(answers);
  if (warm_up) RunWarmUp(answers.back());
  done_ = 0;
  std::vector<Answer> results;
  for (const TracedAnswer& answer : answers) {
    results.push_back(RunAdaptive(answer, /*explored=*/0));
  }
  return results;
}

std::vector<Simulation::Answer> Simulation::Fixed(
    const std::vector<TracedAnswer>& answers, DrafterSet set) {
  Begin(answers);
  double network_ms = 2;
  std::vector<Answer> results;
  for (const TracedAnswer& answer : answers) {
    std::fill(lag_.begin(), lag_.end(), 60);
    const int64_t length = static_cast<int64_t>(answer.size());
    Answer result = {.tokens = length};
    for (int64_t at = 0; at < length;) {
      SetTime();
      Round round = {.trees = answer[at]};
      const double rate = 1 / absl::ToDoubleMilliseconds(costs_[0].time);
      std::vector<DraftCall> calls(kNumDrafters, {Attention::kNone});
      if ((set & 1) != 0) calls[kLookup].attention = Attention::kAwaited;
      round.ms += Ask(calls, round);
      const double nothing =
          round.asked == 0 ? 1 : 1 - round.trees[round.asked].top;
      calls[kLookup].attention = Attention::kNone;
      if (set > 1 && (round.asked == 0 || 0.7 * nothing > rate * network_ms)) {
        for (int i = 1; i < kNumDrafters; ++i) {
          if ((set >> i & 1) != 0) calls[i].attention = Attention::kAwaited;
        }
        const double ms = Ask(calls, round);
        network_ms += (ms - network_ms) / 32;
        round.ms += ms;
      }
      const TokenTree tree = TreeOf(round.trees[round.asked]);
      const int64_t nodes =
          NodesThatPay(absl::MakeConstSpan(tree.log_probs).subspan(1),
                       {.costs = costs_,
                        .other_rows = 1,
                        .tokens_per_second = 1e3 * rate})
              .nodes;
      round.ms += Wait() + PassMs(nodes + 1);
      if (!spec_.own_cores && round.asked > 1) round.ms += spec_.presence;
      const int64_t tokens =
          std::min(length - at, 1 + Accepted(round.trees[round.asked], nodes));
      result.ms += round.ms;
      at += tokens;
      Pass(tokens);
    }
    results.push_back(result);
  }
  return results;
}

}  // namespace espalier::coordinator
