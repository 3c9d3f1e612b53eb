// Internal to common/model: includes ATen.
#ifndef ESPALIER_COMMON_MODEL_ATEN_ATEN_MODEL_H_
#define ESPALIER_COMMON_MODEL_ATEN_ATEN_MODEL_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "common/model/aten/decoder.h"
#include "common/model/aten/kv_cache.h"
#include "common/model/language_model.h"
#include "common/model/native/kv_pool.h"
#include "common/model/native/tapped_rows.h"

namespace espalier {

// LanguageModel on libtorch's operators.
class AtenModel final : public LanguageModel {
 public:
  struct Parts {
    ModelInfo info;
    std::unique_ptr<Decoder> decoder;
    KvCache::Shape kv_shape;
    int64_t kv_pool_tokens = 0;
  };

  explicit AtenModel(Parts parts);

  const ModelInfo& info() const override { return info_; }
  KvUsage kv_usage() const override;
  CacheId NewSequence() override;
  void Release(CacheId cache) override;
  int64_t Length(CacheId cache) const override;
  int64_t HeldRoom(CacheId cache) const override;
  absl::StatusOr<std::unique_ptr<LogitRows>> Forward(
      absl::Span<const SequenceRows> batch) override;
  absl::Status Keep(CacheId cache, absl::Span<const int32_t> path,
                    absl::Span<uint16_t> features) override;
  void Truncate(CacheId cache, int64_t length) override;

 private:
  struct Sequence {
    Sequence(const KvCache::Shape& shape, KvPool* pool) : kv(shape, pool) {}
    KvCache kv;
    std::vector<int32_t> last_parents;  // of the last pass's rows
    TappedRows tapped;                  // of these rows
  };

  Sequence& Get(CacheId cache);
  const Sequence& Get(CacheId cache) const;
  int64_t SpareRoom(absl::Span<const SequenceRows> batch) const;
  void AddBiases(PassSequence& part) const;
  absl::StatusOr<Pass> BuildPass(absl::Span<const SequenceRows> batch);
  absl::StatusOr<std::unique_ptr<LogitRows>> RunPass(
      absl::Span<const SequenceRows> batch);
  bool attends_by_rows() const;

  const ModelInfo info_;
  const std::unique_ptr<Decoder> decoder_;
  const KvCache::Shape kv_shape_;
  KvPool pool_;
  std::unordered_map<CacheId, Sequence> sequences_;  // hold room of pool_
  CacheId next_id_ = 1;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_ATEN_ATEN_MODEL_H_
