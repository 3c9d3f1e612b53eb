#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <vector>

#include "coordinator/cli/bench/bench_row.h"

namespace espalier::cli {
namespace {

double Ratio(double sum, int64_t count) {
  return count == 0 ? 0 : sum / static_cast<double>(count);
}

// Decoding time that belongs to no known stage.
double OtherMs(const v1::Timing& timing) {
  return timing.total_ms() - timing.queue_ms() - timing.draft_ms() -
         timing.merge_ms() - timing.verify_ms() - timing.wire_ms();
}

// accepted: [j]: number of verifications that accepted j tokens.
std::vector<double> AcceptedAtDepth(const std::vector<int64_t>& accepted,
                                    int64_t rounds) {
  std::vector<double> parts;
  int64_t at_least = 0;
  for (size_t j = accepted.size(); j-- > 1;) {
    at_least += accepted[j];
    parts.push_back(Ratio(static_cast<double>(at_least), rounds));
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

DecodeSpeed Without(const DecodeSpeed& all, const DecodeSpeed& one) {
  return {.tokens = all.tokens - one.tokens, .ms = all.ms - one.ms};
}

}  // namespace

Repetition CountRepetition(absl::Span<const uint32_t> token_ids) {
  using Gram = std::array<uint32_t, 4>;
  std::set<Gram> seen;
  Repetition result;
  for (size_t i = 0; i + Gram().size() <= token_ids.size(); ++i) {
    const Gram gram = {token_ids[i], token_ids[i + 1], token_ids[i + 2],
                       token_ids[i + 3]};
    ++result.total;
    if (!seen.insert(gram).second) ++result.repeated;
  }
  return result;
}

void BenchTally::Add(const Answer& answer, const Answer* plain) {
  const v1::SpecStats& stats = answer.summary.spec_stats();
  const v1::Timing& timing = answer.summary.timing();
  ++prompts_;
  rounds_ += stats.num_spec_steps();
  nodes_ += stats.num_draft_tokens();
  emitted_ += stats.mean_acceptance_length() * stats.num_spec_steps();
  const auto& histogram = stats.acceptance_histogram();
  accepted_.resize(std::max<size_t>(accepted_.size(), histogram.size()));
  for (int j = 0; j < histogram.size(); ++j) accepted_[j] += histogram[j];
  speeds_.push_back(DecodeSpeedOf(answer));
  speed_.Add(speeds_.back());
  stage_ms_.draft += timing.draft_ms();
  stage_ms_.merge += timing.merge_ms();
  stage_ms_.verify += timing.verify_ms();
  stage_ms_.wire += timing.wire_ms();
  stage_ms_.other += OtherMs(timing);
  const Repetition repetition = CountRepetition(answer.token_ids);
  repetition_.repeated += repetition.repeated;
  repetition_.total += repetition.total;
  if (plain != nullptr && plain->token_ids == answer.token_ids) ++same_text_;
}

void BenchTally::Add(const BenchTally& other) {
  prompts_ += other.prompts_;
  rounds_ += other.rounds_;
  nodes_ += other.nodes_;
  emitted_ += other.emitted_;
  accepted_.resize(std::max(accepted_.size(), other.accepted_.size()));
  for (size_t j = 0; j < other.accepted_.size(); ++j) {
    accepted_[j] += other.accepted_[j];
  }
  speed_.Add(other.speed_);
  speeds_.insert(speeds_.end(), other.speeds_.begin(), other.speeds_.end());
  stage_ms_.draft += other.stage_ms_.draft;
  stage_ms_.merge += other.stage_ms_.merge;
  stage_ms_.verify += other.stage_ms_.verify;
  stage_ms_.wire += other.stage_ms_.wire;
  stage_ms_.other += other.stage_ms_.other;
  repetition_.repeated += other.repetition_.repeated;
  repetition_.total += other.repetition_.total;
  same_text_ += other.same_text_;
}

std::optional<double> BenchTally::SpeedupError(const BenchTally& plain) const {
  std::vector<double> without;  // [i]: the speedup over all prompts but i
  for (size_t i = 0; i < speeds_.size(); ++i) {
    const auto ours = Without(speed_, speeds_[i]).TokensPerSecond();
    const auto theirs =
        Without(plain.speed_, plain.speeds_[i]).TokensPerSecond();
    if (ours && theirs) without.push_back(*ours / *theirs);
  }
  const auto count = static_cast<double>(without.size());
  if (without.size() < 2) return std::nullopt;
  double mean = 0, squares = 0;
  for (double speedup : without) mean += speedup / count;
  for (double speedup : without) {
    squares += (speedup - mean) * (speedup - mean);
  }
  return std::sqrt((count - 1) / count * squares);
}

void BenchTally::Fill(BenchRow& row, const BenchTally* plain) const {
  row.prompts = prompts_;
  row.rounds = rounds_;
  row.tau = Ratio(emitted_, rounds_);
  row.nodes_per_round = Ratio(static_cast<double>(nodes_), rounds_);
  row.accepted_at_depth = AcceptedAtDepth(accepted_, rounds_);
  row.tokens_per_s = speed_.TokensPerSecond();
  row.stage_ms = {.draft = Ratio(stage_ms_.draft, rounds_),
                  .merge = Ratio(stage_ms_.merge, rounds_),
                  .verify = Ratio(stage_ms_.verify, rounds_),
                  .wire = Ratio(stage_ms_.wire, rounds_),
                  .other = Ratio(stage_ms_.other, rounds_)};
  row.repetition =
      Ratio(static_cast<double>(repetition_.repeated), repetition_.total);
  if (plain == nullptr) return;
  row.same_text = same_text_;
  const auto plain_speed = plain->speed_.TokensPerSecond();
  if (row.tokens_per_s && plain_speed) {
    row.speedup = *row.tokens_per_s / *plain_speed;
    if (plain != this) row.speedup_error = SpeedupError(*plain);
  }
}

}  // namespace espalier::cli
