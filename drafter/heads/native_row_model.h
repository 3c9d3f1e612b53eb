#ifndef ESPALIER_DRAFTER_HEADS_NATIVE_ROW_MODEL_H_
#define ESPALIER_DRAFTER_HEADS_NATIVE_ROW_MODEL_H_

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/model/native/native_pass.h"
#include "common/model/native/paged_kv_cache.h"
#include "drafter/engine/host_feature_store.h"
#include "drafter/heads/candidate_head.h"
#include "drafter/heads/row_model.h"

namespace espalier::drafter {

// The sequences of a RowModel whose network runs on the CPU.
class NativeRowModel : public RowModel {
 public:
  // hidden_size: of an output row. features: that rows read; no taps: none.
  NativeRowModel(const KvPageShape& shape, const nn::Kernels& kernels,
                 const KvPageStore::Room& room, int64_t hidden_size,
                 FeatureContract features = {})
      : hidden_size_(hidden_size),
        features_(std::move(features)),
        shares_(room.max_cached_tokens > 0),
        pages_(shape, kernels, room) {}

  Sequence NewSequence() override;
  void Release(Sequence sequence) override;
  int64_t Length(Sequence sequence) const override;
  void Truncate(Sequence sequence, int64_t length) override;
  absl::Status Reserve(Sequence sequence, int64_t rows) override;
  void Share(Sequence sequence, absl::Span<const TokenId> labels,
             absl::string_view salt) override;
  FeatureStore* features() override;
  absl::Status Append(Sequence sequence, absl::Span<const TokenId> tokens,
                      const States& states) override;
  absl::Status Run(absl::Span<const TreeRows> batch) override;
  absl::StatusOr<std::vector<std::vector<Candidate>>> Rank(
      absl::Span<const Query> queries, int64_t width) override;

 protected:
  int64_t hidden_size() const { return hidden_size_; }

 private:
  struct State {
    explicit State(KvPageStore* pages) : cache(pages) {}

    PagedKvCache cache;
    std::vector<float> last_output;  // [hidden] of the last kept row
    std::vector<float> outputs;      // [rows, hidden] of the tree
  };

  // The target's states to what rows read, [rows, hidden]; nothing for a
  // network that reads none.
  virtual void Fuse(absl::Span<const uint16_t> states,
                    std::vector<float>& features) = 0;
  // Puts the K/V of the rows into the caches. features: [rows, hidden], may be
  // overwritten; outputs: [rows, hidden].
  virtual void RunRows(NativePass& pass, std::vector<float>& features,
                       absl::Span<float> outputs) = 0;
  // outputs: [queries, hidden]. See CandidateHead.
  virtual absl::StatusOr<std::vector<std::vector<Candidate>>> RankOutputs(
      const float* outputs, absl::Span<const CandidateHead::Query> queries,
      int64_t width) = 0;

  State& Get(Sequence sequence);
  const State& Get(Sequence sequence) const;
  absl::Span<const float> OutputOf(const State& state, int32_t row) const;

  const int64_t hidden_size_;
  HostFeatureStore features_;
  const bool shares_;
  KvPageStore pages_;
  std::unordered_map<Sequence, State> sequences_;  // hold pages of pages_
  Sequence next_sequence_ = 1;
};

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_HEADS_NATIVE_ROW_MODEL_H_
