#include "coordinator/local/forward_cost.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/status_macros.h"
#include "common/speculation/types.h"
#include "coordinator/local/memory_reader.h"

namespace espalier::local {
namespace {

constexpr absl::Duration kMeasureFor = absl::Seconds(1);
constexpr int kMinTurns = 5;
constexpr int64_t kCpuPrefillChunk = 128;
constexpr int64_t kDecodedTokens = 32;
// Between two passes of a server: bookkeeping, and what drafting a tree reads.
constexpr absl::Duration kGap = absl::Microseconds(150);
constexpr int64_t kDraftBytes = 12'000'000;

// Arbitrary tokens: the work does not depend on them.
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
  const double ffn_matrices = c.kind == DecoderKind::kGpt2 ? 2 : 3;
  double sum = hidden * static_cast<double>(c.vocab_size);
  for (const LayerShape& layer : c.layers) {
    const int64_t seen =
        layer.window > 0 ? std::min(layer.window, context) : context;
    const ExpertsShape& experts = layer.experts;
    const double ffn = static_cast<double>(
        layer.is_dense() ? layer.ffn_size : experts.per_row * experts.ffn_size);
    sum += hidden * (q + 2 * kv) + q * hidden + ffn_matrices * hidden * ffn +
           hidden * static_cast<double>(experts.count) +
           2 * q * static_cast<double>(seen);
  }
  return 2 * sum;
}

// Seconds by action and turn.
using Turns = std::vector<std::vector<double>>;
using Action = std::function<absl::Status()>;

// Runs the actions in turn, repeatedly.
absl::StatusOr<Turns> TakeTurns(absl::Span<const Action> actions) {
  Turns turns(actions.size());
  const absl::Time end =
      absl::Now() + kMeasureFor * static_cast<double>(actions.size());
  for (int turn = 0; turn < kMinTurns || absl::Now() < end; ++turn) {
    for (size_t i = 0; i < actions.size(); ++i) {
      const absl::Time start = absl::Now();
      RETURN_IF_ERROR(actions[i]());
      turns[i].push_back(absl::ToDoubleSeconds(absl::Now() - start));
    }
  }
  return turns;
}

double Fastest(const std::vector<double>& seconds) {
  return *std::min_element(seconds.begin(), seconds.end());
}

double Median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double MedianRatio(absl::Span<const double> one, absl::Span<const double> by) {
  std::vector<double> ratios;
  for (size_t i = 0; i < one.size(); ++i) ratios.push_back(one[i] / by[i]);
  return Median(std::move(ratios));
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
  RETURN_IF_ERROR(model.Keep(cache, {&row, 1}, {}));
  ASSIGN_OR_RETURN(const SampledToken sampled,
                   logits->Draw(0, draw, model.Length(cache)));
  next = sampled.token;
  return absl::OkStatus();
}

// A pass over some rows after the sequence, which stays unchanged.
Action ForwardAction(LanguageModel& model, CacheId cache, int64_t rows,
                     const LogitUse& use) {
  std::vector<int32_t> parents(rows, 0);  // children of the first row
  parents[0] = kPrefixParent;
  return [&model, cache, rows, parents, use,
          tokens = SomeTokens(rows, model.info().config.vocab_size)] {
    const SequenceRows batch[] = {{.cache = cache,
                                   .tokens = tokens,
                                   .parents = parents,
                                   .num_logit_rows = rows,
                                   .use = use}};
    return model.Forward(batch).status();
  };
}

int64_t PrefillChunk(const ModelInfo& model) {
  if (model.device != "cpu") return model.max_chain_rows;
  return std::min(kCpuPrefillChunk, model.max_rows);
}

absl::Status PrefillSome(LanguageModel& model, CacheId cache, int64_t tokens) {
  return Prefill(model, cache,
                 SomeTokens(tokens, model.info().config.vocab_size),
                 PrefillChunk(model.info()))
      .status();
}

// Returns the bytes of the K/V that a row after `context` positions reads.
int64_t BytesOfContext(const ModelInfo& info, int64_t context) {
  int64_t positions = 0;  // of all layers
  for (const LayerShape& layer : info.config.layers) {
    positions += layer.window > 0 ? std::min(layer.window, context) : context;
  }
  return positions * info.kv_bytes_per_token / std::ssize(info.config.layers);
}

}  // namespace

absl::StatusOr<ForwardCosts> MeasureForward(LanguageModel& model,
                                            absl::Span<const int64_t> rows,
                                            int64_t context) {
  const ModelInfo& info = model.info();
  const CacheId cache = model.NewSequence();
  const absl::Cleanup release = [&] { model.Release(cache); };
  RETURN_IF_ERROR(PrefillSome(model, cache, context));
  const int64_t bytes_read = info.weight_bytes + BytesOfContext(info, context);
  ASSIGN_OR_RETURN(const auto reader, MakeMemoryReader(info, bytes_read));
  std::vector<Action> actions = {[&reader] { return reader->Read(); }};
  for (int64_t some : rows) {
    actions.push_back(ForwardAction(model, cache, some, AnyUse()));
  }
  ASSIGN_OR_RETURN(const Turns turns, TakeTurns(actions));
  const double bytes = static_cast<double>(bytes_read);
  ForwardCosts costs = {.floor_ms = Fastest(turns[0]) * 1e3,
                        .floor_gb_per_s = bytes / Fastest(turns[0]) / 1e9};
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::vector<double>& mine = turns[1 + i];
    const double seconds = Fastest(mine);
    const double flop =
        FlopPerRow(info.config, context) * static_cast<double>(rows[i]);
    costs.passes.push_back({.rows = rows[i],
                            .ms = seconds * 1e3,
                            .gb_per_s = bytes / seconds / 1e9,
                            .gflop_per_s = flop / seconds / 1e9,
                            .times_floor = MedianRatio(mine, turns[0]),
                            .times_first = MedianRatio(mine, turns[1])});
  }
  return costs;
}

absl::StatusOr<std::vector<double>> MeasureAsServed(
    LanguageModel& model, absl::Span<const int64_t> rows, int64_t context) {
  const CacheId cache = model.NewSequence();
  const absl::Cleanup release = [&] { model.Release(cache); };
  RETURN_IF_ERROR(PrefillSome(model, cache, context));
  ASSIGN_OR_RETURN(const auto drafter,
                   MakeMemoryReader(model.info(), kDraftBytes));
  std::vector<double> medians;
  for (int64_t some : rows) {
    const Action gap = [&, some]() -> absl::Status {
      absl::SleepFor(kGap);
      return some == 1 ? absl::OkStatus() : drafter->Read();
    };
    ASSIGN_OR_RETURN(
        const Turns turns,
        TakeTurns({gap, ForwardAction(model, cache, some, DrawRequest())}));
    medians.push_back(Median(turns[1]) * 1e3);
  }
  return medians;
}

absl::StatusOr<DecodingSpeed> MeasureDecoding(LanguageModel& model,
                                              int64_t context) {
  const CacheId cache = model.NewSequence();
  const absl::Cleanup release = [&] { model.Release(cache); };
  TokenId next = 0;
  const DrawRequest greedy;
  const Action actions[] = {
      [&] {
        model.Truncate(cache, 0);
        return PrefillSome(model, cache, context);
      },
      [&]() -> absl::Status {
        model.Truncate(cache, context);
        for (int64_t i = 0; i < kDecodedTokens; ++i) {
          RETURN_IF_ERROR(DecodeOne(model, cache, greedy, next));
        }
        return absl::OkStatus();
      }};
  ASSIGN_OR_RETURN(const Turns turns, TakeTurns(actions));
  return DecodingSpeed{
      .plain_tokens_per_s =
          static_cast<double>(kDecodedTokens) / Fastest(turns[1]),
      .prefill_tokens_per_s = static_cast<double>(context) / Fastest(turns[0])};
}

}  // namespace espalier::local
