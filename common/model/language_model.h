#ifndef ESPALIER_COMMON_MODEL_LANGUAGE_MODEL_H_
#define ESPALIER_COMMON_MODEL_LANGUAGE_MODEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/model/logit_row.h"
#include "common/model/model_config.h"
#include "common/spec/types.h"

namespace espalier {

// Names the cached K/V of one sequence inside one LanguageModel. Never reused.
using CacheId = int64_t;

// Parent of a row that continues the cached prefix itself. The same value as
// kNoParent, so that a TokenTree's columns are passed as they are.
inline constexpr int32_t kPrefixParent = -1;

// The logits themselves, or whatever can be made of them.
struct AnyUse {};
using LogitUse = std::variant<AnyUse, DrawRequest, RankRequest, GatherRequest>;

// One sequence's part of a forward pass: a tree of tokens that continues its
// cached prefix. A row sees the prefix, its ancestors and itself; its position
// is the prefix length plus its depth. A prompt is a chain of rows.
struct SequenceRows {
  CacheId cache = 0;
  absl::Span<const TokenId> tokens;   // [rows], rows >= 1
  absl::Span<const int32_t> parents;  // [rows], kPrefixParent or < own index
  // Logits are wanted for the last so many rows: 0 inside a prompt, 1 at its
  // end, all of a tree.
  int64_t num_logit_rows = 0;
  // With a request the rows will be asked for that and nothing else, and the
  // model need not write their logits down.
  LogitUse use;
  // Hidden states wanted of every row, ascending points of the residual stream
  // (see FeatureContract).
  absl::Span<const int32_t> taps;
  // [rows, taps, hidden] float32: the caller's memory, written by the pass. A
  // pass that fails leaves anything in it.
  absl::Span<float> features;
};

// The logits of one pass: the wanted rows of its sequences, one after another.
// Outlives the pass, and the model. REQUIRES: 0 <= row < num_rows(), and what
// is asked of a row is what its sequence said.
class LogitRows {
 public:
  virtual ~LogitRows() = default;
  virtual int64_t num_rows() const = 0;

  // [vocab]. Stays valid while this object lives.
  virtual absl::Span<const float> Row(int64_t row) const = 0;

  // The token after the row's, whose position is thus known. INTERNAL: as
  // CheckFinite. A model that has the logits takes the answer from them.
  virtual absl::StatusOr<DrawnToken> Draw(int64_t row,
                                          const DrawRequest& request,
                                          int64_t position) const {
    return DrawFrom(Row(row), request, position);
  }
  virtual absl::StatusOr<Ranking> Rank(int64_t row,
                                       const RankRequest& request) const {
    return RankFrom(Row(row), request);
  }
  // `index`: of the row among its sequence's, for which the request has a
  // support each. DrawOutside REQUIRES: the row's weight outside is above 0.
  virtual absl::StatusOr<GatheredRow> Gather(int64_t row,
                                             const GatherRequest& request,
                                             int64_t index) const {
    return GatherFrom(Row(row), request, index);
  }
  virtual absl::StatusOr<DrawnToken> DrawOutside(int64_t row,
                                                 const GatherRequest& request,
                                                 int64_t index) const {
    return DrawOutsideFrom(Row(row), request, index);
  }
};

struct ModelInfo {
  ModelConfig config;
  std::string device;         // "cpu", "cuda:0"
  std::string compute_dtype;  // of the matrix products: "float32", "bfloat16"
  int64_t threads = 0;        // of the CPU
  int64_t weight_bytes = 0;   // as loaded
  int64_t kv_bytes_per_token = 0;
  int64_t max_context = 0;  // tokens per sequence, tree rows included
  int64_t max_rows = 0;     // per sequence and pass
  std::string backend;      // what computes: "native avx2", "aten"
};

// The pool that all sequences share, in tokens. A sequence holds whole blocks
// and grows by doubling, so used counts more than what is cached.
struct KvUsage {
  int64_t used_tokens = 0;
  int64_t total_tokens = 0;
};

// A causal language model and the K/V of its sequences. Owned and called by
// one thread, the engine's. No call leaves a sequence changed when it fails.
class LanguageModel {
 public:
  virtual ~LanguageModel() = default;

  virtual const ModelInfo& info() const = 0;
  virtual KvUsage kv_usage() const = 0;

  // An empty sequence. Takes no room in the pool before its first pass.
  virtual CacheId NewSequence() = 0;

  // Returns the sequence's room to the pool. REQUIRES: `cache` is alive, here
  // and below.
  virtual void Release(CacheId cache) = 0;

  // Committed positions: what the next pass sees as the prefix.
  virtual int64_t Length(CacheId cache) const = 0;

  // Runs every sequence's rows in one pass. The K/V of the rows wait behind the
  // prefix until Keep or the sequence's next pass, which overwrites them.
  // INVALID_ARGUMENT: rows, tokens or parents are out of range, or a sequence
  // is there twice. OUT_OF_RANGE: a sequence would outgrow max_context.
  // RESOURCE_EXHAUSTED: the K/V pool is full.
  virtual absl::StatusOr<std::unique_ptr<LogitRows>> Forward(
      absl::Span<const SequenceRows> batch) = 0;

  // Commits rows of the sequence's last pass: a path that starts at a child of
  // the prefix and goes from parent to child. Drops all other rows. An empty
  // path drops them all. INVALID_ARGUMENT: not such a path.
  virtual absl::Status Keep(CacheId cache, absl::Span<const int32_t> path) = 0;

  // Forgets the positions behind `length` and the rows of the last pass.
  // REQUIRES: 0 <= length <= Length(cache).
  virtual void Truncate(CacheId cache, int64_t length) = 0;
};

// Commits `tokens`, in passes of at most `chunk` rows, and returns the logits
// of the last one (one row). A failure leaves what earlier passes committed:
// Truncate to go back. REQUIRES: tokens not empty, 0 < chunk <= max_rows.
absl::StatusOr<std::unique_ptr<LogitRows>> Prefill(
    LanguageModel& model, CacheId cache, absl::Span<const TokenId> tokens,
    int64_t chunk);

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_LANGUAGE_MODEL_H_
