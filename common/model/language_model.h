#ifndef ESPALIER_COMMON_MODEL_LANGUAGE_MODEL_H_
#define ESPALIER_COMMON_MODEL_LANGUAGE_MODEL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/model/files/model_config.h"
#include "common/model/kv_groups.h"
#include "common/model/logits/logit_row.h"
#include "common/speculation/feature_ring.h"
#include "common/speculation/types.h"

namespace espalier {

// Names the cached K/V of one sequence inside one LanguageModel. Never reused.
using CacheId = int64_t;

// Parent of a row that continues the cached prefix itself. The same value as
// kNoParent, so that a TokenTree's columns are passed as they are.
inline constexpr int32_t kPrefixParent = -1;

// The caller may read the logits themselves or any reduction of them.
struct AnyUse {};
using LogitUse = std::variant<AnyUse, DrawRequest, FilteredDrawRequest,
                              RankRequest, GatherRequest>;

// One sequence's part of a forward pass: a tree of tokens that continues its
// cached prefix. A row sees the prefix, its ancestors and itself; its position
// is the prefix length plus its depth. A prompt is a chain of rows.
struct SequenceRows {
  CacheId cache = 0;
  absl::Span<const TokenId> tokens;   // [rows], rows >= 1
  absl::Span<const int32_t> parents;  // [rows], kPrefixParent or < own index
  // Logits are wanted for the last num_logit_rows rows: 0 inside a prompt, 1 at
  // its end, all of a tree.
  int64_t num_logit_rows = 0;
  // If it has a request, only that may be asked of the rows, so the model need
  // not store their logits. It does for FilteredDrawRequest: Row may be asked,
  // too.
  LogitUse use = {};
  // If top_k is above 0, Rank may be asked with this request, too, of each of
  // these rows. REQUIRES: `wanted` is empty then.
  RankRequest ranks = {};
  // For AnyUse, the only tokens whose logits are read, one bit each, the lowest
  // of the first word first; empty: all. The model may leave out the others'
  // products: their logits are finite then, and mean nothing. [vocab size / 32,
  // rounded up]
  absl::Span<const uint32_t> wanted = {};
  // Points of the residual stream, ascending (see FeatureContract), whose
  // hidden states Keep may be asked for.
  absl::Span<const int32_t> taps = {};
};

// Returns whether each of a sequence's rows is the parent of the next.
bool IsChain(absl::Span<const int32_t> parents);

// The logits of one pass: the wanted rows of its sequences, one after another.
// Outlives the pass, and the model. REQUIRES: 0 <= row < num_rows(), and a row
// is asked only for its sequence's `use`.
class LogitRows {
 public:
  virtual ~LogitRows() = default;
  virtual int64_t num_rows() const = 0;

  // [vocab]. Stays valid while this object lives.
  virtual absl::Span<const float> Row(int64_t row) const = 0;

  // Samples the token at `position`, which is the row's plus 1. INTERNAL: as
  // CheckFinite. These defaults compute the answer from the stored logits.
  virtual absl::StatusOr<SampledToken> Draw(int64_t row,
                                            const DrawRequest& request,
                                            int64_t position) const {
    return DrawFrom(Row(row), request, position);
  }
  // None: the model leaves it to the caller, who may ask for Row.
  virtual absl::StatusOr<std::optional<SampledToken>> DrawFiltered(
      int64_t /*row*/, const FilteredDrawRequest& /*request*/,
      int64_t /*position*/) const {
    return std::nullopt;
  }
  virtual absl::StatusOr<Ranking> Rank(int64_t row,
                                       const RankRequest& request) const {
    return RankFrom(Row(row), request);
  }
  // `index`: of the row among its sequence's rows; the request has a support
  // for each. SampleOutside REQUIRES: the row's weight outside is above 0.
  virtual absl::StatusOr<GatheredRow> Gather(int64_t row,
                                             const GatherRequest& request,
                                             int64_t index) const {
    return GatherFrom(Row(row), request, index);
  }
  virtual absl::StatusOr<SampledToken> SampleOutside(
      int64_t row, const GatherRequest& request, int64_t index) const {
    return SampleOutsideFrom(Row(row), request, index);
  }
};

struct ModelInfo {
  ModelConfig config;
  std::string device;         // "cpu", "cuda:0"
  std::string compute_dtype;  // of the matrix products: "float32", "bfloat16"
  std::string kv_cache_type;  // of keys and values: "float32", "bfloat16"
  int64_t threads = 0;        // of the CPU
  int64_t weight_bytes = 0;   // as loaded
  int64_t kv_bytes_per_token = 0;  // of all layers
  // Tokens per sequence, tree rows included. Never more than the K/V pool
  // holds: a sequence that has the pool to itself has room for them.
  int64_t max_context = 0;
  int64_t max_rows = 0;  // per sequence and pass
  // A chain, as in a prompt, may have these: at least max_rows.
  int64_t max_chain_rows = 0;
  std::string backend;                // implementation: "native avx2", "aten"
  uint64_t fingerprint = 0;           // see model_fingerprint.h
  KvGroups kv_groups = {};            // how sequences hold room
  bool shares_kv = false;             // Share is of use
  FeatureRingInfo feature_ring = {};  // where Store leaves features; id 0: none
  // Ascending row counts of a pass after which the next row costs as much as
  // many; between them rows cost next to nothing. Empty: not known.
  std::vector<int64_t> row_edges = {};
};

// The pool of all sequences, in tokens. Sequences hold whole blocks, so
// used_tokens can exceed the sum of their lengths. A position of a model with
// windows takes a token in each group of layers (ModelInfo::kv_groups).
struct KvUsage {
  int64_t used_tokens = 0;
  int64_t total_tokens = 0;
  // Kept for Share although no sequence holds them. Their room is free: they
  // are evicted where it is needed.
  int64_t cached_tokens = 0;
  int64_t evicted_tokens = 0;  // so far
};

// The memory of the GPU that a model is on; all 0 on a CPU.
struct DeviceMemory {
  int64_t used_bytes = 0;  // by all programs
  int64_t total_bytes = 0;
};

// A causal language model and the K/V of its sequences. Owned and called by
// one thread, the engine's. No call leaves a sequence changed when it fails.
// Forward, Keep and what is asked of LogitRows give UNAVAILABLE if the device
// is lost to this process: then all later calls fail, too.
class LanguageModel {
 public:
  virtual ~LanguageModel() = default;

  virtual const ModelInfo& info() const = 0;
  virtual KvUsage kv_usage() const = 0;
  // Asks the device, which may take a fraction of a millisecond.
  virtual DeviceMemory device_memory() const { return {}; }

  // Makes an empty sequence. Takes no room in the pool before its first pass.
  virtual CacheId NewSequence() = 0;

  // Returns the sequence's room to the pool. REQUIRES: `cache` is alive, here
  // and below.
  virtual void Release(CacheId cache) = 0;

  // Committed positions: what the next pass sees as the prefix.
  virtual int64_t Length(CacheId cache) const = 0;

  // Returns the room of the pool, in tokens, that Release would return. A pass
  // finds room if the sum over its sequences of max(0,
  // kv_groups.RoomFor(prefix + rows, rows) - HeldRoom - SharedRoom) is at most
  // the free room.
  virtual int64_t HeldRoom(CacheId cache) const = 0;

  // Returns the room that the sequence holds together with others, which
  // Release would not return.
  virtual int64_t SharedRoom(CacheId /*cache*/) const { return 0; }

  // Returns the positions that an empty sequence of this text and salt would
  // have after Share, of those that other sequences hold. It needs so much less
  // room of its own (KvGroups::RoomOfPrefix).
  virtual int64_t HeldPrefix(absl::Span<const TokenId> /*text*/,
                             absl::string_view /*salt*/) const {
    return 0;
  }

  // Shares K/V between sequences of the same text and salt: offers the
  // sequence's whole blocks of committed positions to others, then continues it
  // with blocks that were offered, as far as these hold `text`. Returns by how
  // many positions it has grown. What was offered outlives the sequence until
  // it is evicted (KvUsage). Drops the rows of the last pass. REQUIRES: `text`
  // begins with the sequence's committed tokens; a sequence has one salt. A
  // model may share nothing; one that does gives the K/V that the sequence's
  // own passes would have computed, bit for bit if its logits do not depend on
  // which rows share a pass.
  virtual int64_t Share(CacheId /*cache*/, absl::Span<const TokenId> /*text*/,
                        absl::string_view /*salt*/) {
    return 0;
  }

  // Runs every sequence's rows in one pass. The K/V of the rows stay after the
  // prefix until Keep or the sequence's next pass, which overwrites them. The
  // pass is done when Forward returns, on every device: its duration is the
  // pass's, and what is asked of the rows later waits for no pass.
  // INVALID_ARGUMENT: rows, tokens or parents are out of range, or a sequence
  // is in the batch twice. OUT_OF_RANGE: a sequence would outgrow max_context.
  // RESOURCE_EXHAUSTED: the K/V pool is full.
  virtual absl::StatusOr<std::unique_ptr<LogitRows>> Forward(
      absl::Span<const SequenceRows> batch) = 0;

  // Returns how many experts of a mixture the last pass read, over all layers;
  // 0: the model has none, or does not count them.
  virtual int64_t experts_read() const { return 0; }

  // Leaves the hidden states of rows of the sequence's last pass, a path as of
  // Keep, which commits them next, at some of the pass's taps in the ring
  // (ModelOptions::feature_ring): as those of the positions from Length(cache)
  // on. Returns where they are: in no segment if there is no room. REQUIRES:
  // there is a ring.
  virtual absl::StatusOr<std::vector<RingSegment>> Store(
      CacheId /*cache*/, absl::Span<const int32_t> /*path*/,
      absl::Span<const int32_t> /*taps*/) {
    return absl::UnimplementedError("the model has no ring of features");
  }
  // Leaves the same of states that were kept elsewhere, [positions, taps,
  // hidden].
  virtual absl::StatusOr<std::vector<RingSegment>> StoreRows(
      absl::Span<const int32_t> /*taps*/, absl::Span<const uint16_t> /*rows*/,
      int64_t /*position*/) {
    return absl::UnimplementedError("the model has no ring of features");
  }

  // Commits rows of the sequence's last pass: a path that starts at a child of
  // the prefix and goes from parent to child. Drops all other rows. An empty
  // path drops them all. Writes the hidden states of the kept rows at the taps
  // of their pass to `features`, [path, taps, hidden] rounded to bf16, unless
  // it is empty. INVALID_ARGUMENT: not such a path, or `features` has another
  // size.
  virtual absl::Status Keep(CacheId cache, absl::Span<const int32_t> path,
                            absl::Span<uint16_t> features) = 0;

  // Drops the positions from `length` on and the rows of the last pass; all
  // positions where a window would begin before what is left of it.
  // REQUIRES: 0 <= length <= Length(cache).
  virtual void Truncate(CacheId cache, int64_t length) = 0;
};

// Commits `tokens`, in passes of at most `chunk` rows, and returns the logits
// of the last one (one row). After a failure, tokens of earlier passes stay
// committed: Truncate to go back. REQUIRES: tokens not empty, 0 < chunk <=
// max_chain_rows.
absl::StatusOr<std::unique_ptr<LogitRows>> Prefill(
    LanguageModel& model, CacheId cache, absl::Span<const TokenId> tokens,
    int64_t chunk);

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_LANGUAGE_MODEL_H_
