#include "common/model/native_model.h"

#include <new>
#include <utility>

#include "absl/status/status.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/model/row_batch.h"

namespace espalier {
namespace {

class HostLogitRows final : public LogitRows {
 public:
  HostLogitRows(int64_t rows, int64_t vocab)
      : rows_(rows),
        vocab_(vocab),
        logits_(std::make_unique_for_overwrite<float[]>(rows * vocab)) {}

  float* data() { return logits_.get(); }
  int64_t num_rows() const override { return rows_; }

  absl::Span<const float> Row(int64_t row) const override {
    ESPALIER_CHECK(0 <= row && row < rows_);
    return {logits_.get() + row * vocab_, static_cast<size_t>(vocab_)};
  }

 private:
  const int64_t rows_;
  const int64_t vocab_;
  const std::unique_ptr<float[]> logits_;  // [rows, vocab]
};

}  // namespace

NativeModel::NativeModel(Parts parts)
    : info_(std::move(parts.info)),
      decoder_(std::move(parts.decoder)),
      pages_({.num_layers = info_.config.num_layers,
              .num_kv_heads = info_.config.num_kv_heads,
              .head_dim = info_.config.head_dim},
             decoder_->kernels(), parts.kv_pool_tokens) {}

KvUsage NativeModel::kv_usage() const {
  return {.used_tokens = pages_.pool().used_tokens(),
          .total_tokens = pages_.pool().total_tokens()};
}

CacheId NativeModel::NewSequence() {
  sequences_.try_emplace(next_id_, &pages_);
  return next_id_++;
}

void NativeModel::Release(CacheId cache) {
  ESPALIER_CHECK(sequences_.erase(cache) == 1);
}

int64_t NativeModel::Length(CacheId cache) const {
  return Get(cache).kv.length();
}

NativeModel::Sequence& NativeModel::Get(CacheId cache) {
  auto found = sequences_.find(cache);
  ESPALIER_CHECK(found != sequences_.end());
  return found->second;
}

const NativeModel::Sequence& NativeModel::Get(CacheId cache) const {
  return const_cast<NativeModel*>(this)->Get(cache);
}

absl::StatusOr<std::unique_ptr<LogitRows>> NativeModel::Forward(
    absl::Span<const SequenceRows> batch) {
  const RowLimits limits = {.max_rows = info_.max_rows,
                            .max_context = info_.max_context,
                            .vocab_size = info_.config.vocab_size};
  RETURN_IF_ERROR(CheckBatch(
      batch, [this](CacheId cache) { return Length(cache); }, limits));
  try {
    return RunPass(batch);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("out of memory");
  }
}

absl::StatusOr<NativePass> NativeModel::BuildPass(
    absl::Span<const SequenceRows> batch) {
  NativePass pass;
  for (const SequenceRows& rows : batch) {
    PagedKvCache& kv = Get(rows.cache).kv;
    const int64_t size = static_cast<int64_t>(rows.tokens.size());
    RETURN_IF_ERROR(kv.Reserve(kv.length() + size));
    NativePass::Sequence part = {
        .first_row = pass.rows(),
        .tree = BuildRowTree(rows.parents, kv.length()),
        .cache = &kv};
    pass.tokens.insert(pass.tokens.end(), rows.tokens.begin(),
                       rows.tokens.end());
    pass.positions.insert(pass.positions.end(), part.tree.positions.begin(),
                          part.tree.positions.end());
    for (int64_t i = size - rows.num_logit_rows; i < size; ++i) {
      pass.logit_rows.push_back(part.first_row + i);
    }
    pass.sequences.push_back(std::move(part));
  }
  return pass;
}

absl::StatusOr<std::unique_ptr<LogitRows>> NativeModel::RunPass(
    absl::Span<const SequenceRows> batch) {
  ASSIGN_OR_RETURN(const NativePass pass, BuildPass(batch));
  auto logits = std::make_unique<HostLogitRows>(pass.num_logit_rows(),
                                                info_.config.vocab_size);
  for (const SequenceRows& rows : batch) Get(rows.cache).last_parents.clear();
  decoder_->Run(pass, logits->data());
  for (size_t i = 0; i < batch.size(); ++i) {
    Get(batch[i].cache).last_parents = pass.sequences[i].tree.parents;
  }
  return logits;
}

absl::Status NativeModel::Keep(CacheId cache, absl::Span<const int32_t> path) {
  Sequence& sequence = Get(cache);
  RETURN_IF_ERROR(CheckPath(sequence.last_parents, path));
  sequence.kv.Keep(path);
  sequence.last_parents.clear();
  return absl::OkStatus();
}

void NativeModel::Truncate(CacheId cache, int64_t length) {
  Sequence& sequence = Get(cache);
  sequence.kv.Truncate(length);
  sequence.last_parents.clear();
}

}  // namespace espalier
