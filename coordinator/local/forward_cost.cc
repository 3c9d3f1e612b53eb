#include "coordinator/local/forward_cost.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <limits>
#include <numeric>
#include <thread>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/status_macros.h"
#include "common/nn/huge_page_arena.h"
#include "common/spec/types.h"

namespace espalier::local {
namespace {

constexpr absl::Duration kMeasureFor = absl::Seconds(1);
constexpr int kMinRepetitions = 5;
constexpr int64_t kPrefillChunk = 128;
constexpr int64_t kDecodedTokens = 32;

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

// Commits `next` and replaces it with the token after it.
absl::Status DecodeOne(LanguageModel& model, CacheId cache,
                       const DrawRequest& draw, TokenId& next) {
  const int32_t row = 0;
  const int32_t parent = kPrefixParent;
  const SequenceRows batch[] = {{.cache = cache,
                                 .tokens = {&next, 1},
                                 .parents = {&parent, 1},
                                 .num_logit_rows = 1,
                                 .use = draw}};
  ASSIGN_OR_RETURN(const auto logits, model.Forward(batch));
  RETURN_IF_ERROR(model.Keep(cache, {&row, 1}));
  ASSIGN_OR_RETURN(const DrawnToken drawn,
                   logits->Draw(0, draw, model.Length(cache)));
  next = drawn.token;
  return absl::OkStatus();
}

// The sum of all words, read as fast as a core can.
uint64_t ReadAll(absl::Span<const uint64_t> words) {
  constexpr size_t kLine = 8, kAhead = 512;  // words
  uint64_t sums[kLine] = {};
  for (size_t i = 0; i + kLine <= words.size(); i += kLine) {
    __builtin_prefetch(words.data() + i + kAhead, /*rw=*/0, /*locality=*/2);
    for (size_t j = 0; j < kLine; ++j) sums[j] += words[i + j];
  }
  return std::accumulate(std::begin(sums), std::end(sums), uint64_t{0});
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

absl::StatusOr<DecodingSpeed> MeasureDecoding(LanguageModel& model,
                                              int64_t context) {
  const int64_t vocab_size = model.info().config.vocab_size;
  const std::vector<TokenId> prompt = SomeTokens(context, vocab_size);
  const CacheId cache = model.NewSequence();
  const absl::Cleanup release = [&] { model.Release(cache); };
  ASSIGN_OR_RETURN(const double prefill, Fastest([&]() -> absl::Status {
                     model.Truncate(cache, 0);
                     return Prefill(
                                model, cache, prompt,
                                std::min(kPrefillChunk, model.info().max_rows))
                         .status();
                   }));
  TokenId next = 0;
  const DrawRequest greedy;
  ASSIGN_OR_RETURN(const double decode, Fastest([&]() -> absl::Status {
                     model.Truncate(cache, context);
                     for (int64_t i = 0; i < kDecodedTokens; ++i) {
                       RETURN_IF_ERROR(DecodeOne(model, cache, greedy, next));
                     }
                     return absl::OkStatus();
                   }));
  return DecodingSpeed{
      .plain_tokens_per_s = static_cast<double>(kDecodedTokens) / decode,
      .prefill_tokens_per_s = static_cast<double>(context) / prefill};
}

double MeasureReadSpeed(int64_t bytes, int64_t threads) {
  const nn::HugePageBlock block = nn::AllocateHugePages(bytes);
  const absl::Span<uint64_t> memory(reinterpret_cast<uint64_t*>(block.get()),
                                    bytes / sizeof(uint64_t));
  std::fill(memory.begin(), memory.end(), 1);
  std::atomic<uint64_t> total = 0;  // keeps the reads from being dropped
  const auto seconds = Fastest([&]() -> absl::Status {
    std::vector<std::thread> readers;
    const size_t share = memory.size() / threads;
    for (int64_t i = 0; i < threads; ++i) {
      readers.emplace_back([&, part = memory.subspan(i * share, share)] {
        total += ReadAll(part);
      });
    }
    for (std::thread& reader : readers) reader.join();
    return absl::OkStatus();
  });
  return static_cast<double>(bytes) / *seconds / 1e9;
}

}  // namespace espalier::local
