#include "coordinator/cli/bench/load_row.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/json/ordered_json.h"
#include "nlohmann/json.hpp"

namespace espalier::cli {
namespace {

// Time per token after the first message; zero if there was none.
absl::Duration PerToken(const LoadSample& sample) {
  if (sample.gaps.empty()) return absl::ZeroDuration();
  return (sample.total - sample.first_token) /
         std::max<int64_t>(1, sample.tokens - 1);
}

bool Meets(const LoadSample& sample, const LoadTarget& target) {
  return sample.status.ok() && sample.first_token <= target.first_token &&
         PerToken(sample) <= target.per_token;
}

nlohmann::ordered_json ToJson(const Percentiles& percentiles) {
  return {{"p50", percentiles.p50},
          {"p95", percentiles.p95},
          {"p99", percentiles.p99}};
}

}  // namespace

bool IsRefusal(const absl::Status& status) {
  return absl::IsResourceExhausted(status) || absl::IsUnavailable(status);
}

Percentiles PercentilesOf(std::vector<absl::Duration> samples) {
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  const auto rank = [&samples](double part) {
    const size_t index = static_cast<size_t>(
        std::ceil(part * static_cast<double>(samples.size())));
    return absl::ToDoubleMilliseconds(samples[std::max<size_t>(index, 1) - 1]);
  };
  return {.p50 = rank(0.50), .p95 = rank(0.95), .p99 = rank(0.99)};
}

LoadRow Summarize(const std::vector<LoadSample>& samples, absl::Duration span,
                  const LoadTarget& target) {
  LoadRow row = {.requests = static_cast<int64_t>(samples.size())};
  std::vector<absl::Duration> first, gaps, per_token, total, refused;
  int64_t tokens = 0, rounds = 0;
  for (const LoadSample& sample : samples) {
    if (!sample.status.ok()) {
      ++(IsRefusal(sample.status) ? row.refused : row.failed);
      if (IsRefusal(sample.status)) refused.push_back(sample.total);
      continue;
    }
    first.push_back(sample.first_token);
    total.push_back(sample.total);
    per_token.push_back(PerToken(sample));
    gaps.insert(gaps.end(), sample.gaps.begin(), sample.gaps.end());
    tokens += sample.tokens;
    rounds += sample.rounds;
    row.good += Meets(sample, target);
  }
  const double seconds = std::max(absl::ToDoubleSeconds(span), 1e-9);
  row.tokens_per_s = static_cast<double>(tokens) / seconds;
  row.goodput = static_cast<double>(row.good) / seconds;
  row.tau = rounds == 0
                ? 0
                : static_cast<double>(tokens) / static_cast<double>(rounds);
  row.first_token_ms = PercentilesOf(std::move(first));
  row.gap_ms = PercentilesOf(std::move(gaps));
  row.per_token_ms = PercentilesOf(std::move(per_token));
  row.total_ms = PercentilesOf(std::move(total));
  row.refused_ms = PercentilesOf(std::move(refused));
  return row;
}

std::string ToJson(const LoadRow& row) {
  return ToText(
      nlohmann::ordered_json{{"mode", row.mode},
                             {"rate", row.rate},
                             {"concurrency", row.concurrency},
                             {"requests", row.requests},
                             {"refused", row.refused},
                             {"failed", row.failed},
                             {"tokens_per_s", row.tokens_per_s},
                             {"good", row.good},
                             {"goodput", row.goodput},
                             {"tau", row.tau},
                             {"first_token_ms", ToJson(row.first_token_ms)},
                             {"gap_ms", ToJson(row.gap_ms)},
                             {"per_token_ms", ToJson(row.per_token_ms)},
                             {"total_ms", ToJson(row.total_ms)},
                             {"refused_ms", ToJson(row.refused_ms)}});
}

}  // namespace espalier::cli
