#ifndef ESPALIER_COMMON_MODEL_NATIVE_NATIVE_MODEL_H_
#define ESPALIER_COMMON_MODEL_NATIVE_NATIVE_MODEL_H_

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "common/model/language_model.h"
#include "common/model/model_options.h"
#include "common/model/native/native_decoder.h"
#include "common/model/native/paged_kv_cache.h"
#include "common/model/native/tapped_rows.h"

namespace espalier {

// LanguageModel on the operators of common/nn: own kernels on the CPU, no
// libtorch. A row's logits are bit-identical for any other rows in the pass and
// any number of threads.
class NativeModel final : public LanguageModel {
 public:
  struct Parts {
    ModelInfo info;
    std::unique_ptr<NativeDecoder> decoder;
    nn::KvType kv_type = nn::KvType::kFloat32;  // the decoder's
    KvPageStore::Room room;
  };

  explicit NativeModel(Parts parts);

  const ModelInfo& info() const override { return info_; }
  KvUsage kv_usage() const override;
  CacheId NewSequence() override;
  void Release(CacheId cache) override;
  int64_t Length(CacheId cache) const override;
  int64_t HeldRoom(CacheId cache) const override;
  int64_t SharedRoom(CacheId cache) const override;
  int64_t HeldPrefix(absl::Span<const TokenId> text,
                     absl::string_view salt) const override;
  int64_t Share(CacheId cache, absl::Span<const TokenId> text,
                absl::string_view salt) override;
  absl::StatusOr<std::unique_ptr<LogitRows>> Forward(
      absl::Span<const SequenceRows> batch) override;
  absl::Status Keep(CacheId cache, absl::Span<const int32_t> path,
                    absl::Span<uint16_t> features) override;
  void Truncate(CacheId cache, int64_t length) override;
  int64_t experts_read() const override;

 private:
  struct Sequence {
    explicit Sequence(KvPageStore* store) : kv(store) {}
    PagedKvCache kv;
    std::vector<int32_t> last_parents;  // of the last pass's rows
    TappedRows tapped;                  // of these rows
  };

  Sequence& Get(CacheId cache);
  const Sequence& Get(CacheId cache) const;
  absl::StatusOr<NativePass> BuildPass(absl::Span<const SequenceRows> batch);
  absl::StatusOr<std::unique_ptr<LogitRows>> RunPass(
      absl::Span<const SequenceRows> batch);

  const ModelInfo info_;
  const std::unique_ptr<NativeDecoder> decoder_;
  KvPageStore pages_;
  const PagedKvCache empty_{&pages_};
  std::unordered_map<CacheId, Sequence> sequences_;  // hold pages of pages_
  CacheId next_id_ = 1;
};

// See LoadModel. UNIMPLEMENTED: a device or a shape that the kernels do not
// cover.
absl::StatusOr<std::unique_ptr<LanguageModel>> LoadNativeModel(
    const ModelOptions& options);

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_NATIVE_NATIVE_MODEL_H_
