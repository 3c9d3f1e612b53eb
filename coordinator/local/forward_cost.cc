#include "coordinator/local/forward_cost.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <numeric>
#include <thread>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/spec/types.h"

namespace espalier::local {
namespace {

constexpr absl::Duration kMeasureFor = absl::Seconds(1);
constexpr int kMinRepetitions = 5;
constexpr int64_t kPrefillChunk = 128;

// Any tokens do: the work does not depend on which.
std::vector<TokenId> SomeTokens(int64_t count, int64_t vocab_size) {
  std::vector<TokenId> tokens(count);
  for (int64_t i = 0; i < count; ++i) {
    tokens[i] = static_cast<TokenId>(i * 7919 % vocab_size);
  }
  return tokens;
}

// Multiply-adds of the matrix products of one row, times two.
double FlopPerRow(const ModelConfig& c, int64_t context) {
  const double q = static_cast<double>(c.num_heads * c.head_dim);
  const double kv = static_cast<double>(c.num_kv_heads * c.head_dim);
  const double hidden = static_cast<double>(c.hidden_size);
  const double ffn_matrices = c.architecture == Architecture::kGpt2 ? 2 : 3;
  const double layer = hidden * (q + 2 * kv) + q * hidden +
                       ffn_matrices * hidden * static_cast<double>(c.ffn_size) +
                       2 * q * static_cast<double>(context);
  return 2 * (static_cast<double>(c.num_layers) * layer +
              hidden * static_cast<double>(c.vocab_size));
}

// The least time of a repeated action, in seconds.
template <typename Action>
absl::StatusOr<double> Fastest(Action action) {
  double fastest = std::numeric_limits<double>::infinity();
  const absl::Time end = absl::Now() + kMeasureFor;
  for (int i = 0; i < kMinRepetitions || absl::Now() < end; ++i) {
    const absl::Time start = absl::Now();
    RETURN_IF_ERROR(action());
    fastest = std::min(fastest, absl::ToDoubleSeconds(absl::Now() - start));
  }
  return fastest;
}

}  // namespace

absl::StatusOr<ForwardCost> MeasureForward(LanguageModel& model, int64_t rows,
                                           int64_t context) {
  const ModelConfig& config = model.info().config;
  const CacheId cache = model.NewSequence();
  const absl::Cleanup release = [&] { model.Release(cache); };
  RETURN_IF_ERROR(Prefill(model, cache, SomeTokens(context, config.vocab_size),
                          std::min(kPrefillChunk, model.info().max_rows))
                      .status());
  const std::vector<TokenId> tokens = SomeTokens(rows, config.vocab_size);
  std::vector<int32_t> parents(rows, 0);  // children of the first row
  parents[0] = kPrefixParent;
  const SequenceRows batch[] = {{.cache = cache,
                                 .tokens = tokens,
                                 .parents = parents,
                                 .num_logit_rows = rows}};
  ASSIGN_OR_RETURN(const double seconds, Fastest([&]() -> absl::Status {
                     return model.Forward(batch).status();
                   }));
  return ForwardCost{
      .rows = rows,
      .ms = seconds * 1e3,
      .gb_per_s =
          static_cast<double>(model.info().weight_bytes) / seconds / 1e9,
      .gflop_per_s = FlopPerRow(config, context) * static_cast<double>(rows) /
                     seconds / 1e9};
}

double MeasureReadSpeed(int64_t bytes, int64_t threads) {
  const std::vector<uint64_t> memory(bytes / sizeof(uint64_t), 1);
  std::atomic<uint64_t> total = 0;  // keeps the reads from being dropped
  const auto seconds = Fastest([&]() -> absl::Status {
    std::vector<std::thread> readers;
    const size_t share = memory.size() / threads;
    for (int64_t i = 0; i < threads; ++i) {
      readers.emplace_back([&, begin = memory.begin() + i * share, share] {
        total += std::accumulate(begin, begin + share, uint64_t{0});
      });
    }
    for (std::thread& reader : readers) reader.join();
    return absl::OkStatus();
  });
  return static_cast<double>(bytes) / *seconds / 1e9;
}

}  // namespace espalier::local
