#include "common/model/aten/aten_model.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <c10/core/InferenceMode.h>

#include <utility>

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/model/aten/catch_torch.h"
#include "common/model/aten/ops.h"
#include "common/model/aten/tensor_rows.h"
#include "common/speculation/features.h"

namespace espalier {
namespace {

at::Tensor LongTensor(const std::vector<int64_t>& values) {
  return at::tensor(values, at::dtype(at::kLong));
}

}  // namespace

AtenModel::AtenModel(Parts parts)
    : info_(std::move(parts.info)),
      decoder_(std::move(parts.decoder)),
      kv_shape_(parts.kv_shape),
      pool_(parts.kv_pool_tokens) {}

KvUsage AtenModel::kv_usage() const {
  return {.used_tokens = pool_.used_tokens(),
          .total_tokens = pool_.total_tokens()};
}

CacheId AtenModel::NewSequence() {
  sequences_.try_emplace(next_id_, kv_shape_, &pool_);
  return next_id_++;
}

void AtenModel::Release(CacheId cache) {
  ESPALIER_CHECK(sequences_.erase(cache) == 1);
}

int64_t AtenModel::Length(CacheId cache) const {
  return Get(cache).kv.length();
}

int64_t AtenModel::HeldRoom(CacheId cache) const {
  return Get(cache).kv.held_tokens();
}

AtenModel::Sequence& AtenModel::Get(CacheId cache) {
  auto found = sequences_.find(cache);
  ESPALIER_CHECK(found != sequences_.end());
  return found->second;
}

const AtenModel::Sequence& AtenModel::Get(CacheId cache) const {
  return const_cast<AtenModel*>(this)->Get(cache);
}

// The exact attention is in float32.
bool AtenModel::attends_by_rows() const {
  return kv_shape_.dtype == at::kFloat;
}

absl::StatusOr<std::unique_ptr<LogitRows>> AtenModel::Forward(
    absl::Span<const SequenceRows> batch) {
  RETURN_IF_ERROR(CheckBatch(
      batch, [this](CacheId cache) { return Length(cache); },
      RowLimitsOf(info_)));
  return CatchTorch([&] {
    const c10::InferenceMode no_autograd;
    return RunPass(batch);
  });
}

// Returns the free room that the pass does not need.
int64_t AtenModel::SpareRoom(absl::Span<const SequenceRows> batch) const {
  int64_t spare = pool_.free_tokens();
  for (const SequenceRows& rows : batch) {
    const KvCache& kv = Get(rows.cache).kv;
    spare -= kv.MissingFor(kv.length() + std::ssize(rows.tokens));
  }
  return spare;
}

void AtenModel::AddBiases(PassSequence& part) const {
  for (const LayerShape& layer : info_.config.layers) {
    at::Tensor& bias = part.biases[layer.window];
    if (!bias.defined()) bias = ops::TreeBias(part.tree, layer.window);
  }
}

absl::StatusOr<Pass> AtenModel::BuildPass(
    absl::Span<const SequenceRows> batch) {
  int64_t spare = SpareRoom(batch);
  std::vector<int64_t> tokens, positions;
  Pass pass;
  for (const SequenceRows& rows : batch) {
    KvCache& kv = Get(rows.cache).kv;
    RETURN_IF_ERROR(kv.Reserve(kv.length() + std::ssize(rows.tokens), spare));
    PassSequence part = {.first_row = static_cast<int64_t>(tokens.size()),
                         .tree = BuildRowTree(rows.parents, kv.length()),
                         .cache = &kv,
                         .biases = {}};
    if (!attends_by_rows()) AddBiases(part);
    tokens.insert(tokens.end(), rows.tokens.begin(), rows.tokens.end());
    positions.insert(positions.end(), part.tree.positions.begin(),
                     part.tree.positions.end());
    pass.sequences.push_back(std::move(part));
  }
  pass.tokens = LongTensor(tokens);
  pass.positions = LongTensor(positions);
  return pass;
}

absl::StatusOr<std::unique_ptr<LogitRows>> AtenModel::RunPass(
    absl::Span<const SequenceRows> batch) {
  ASSIGN_OR_RETURN(Pass pass, BuildPass(batch));
  for (size_t i = 0; i < batch.size(); ++i) {
    Sequence& sequence = Get(batch[i].cache);
    sequence.last_parents.clear();
    sequence.tapped.Start(pass.sequences[i].tree.rows(), batch[i].taps,
                          info_.config.hidden_size);
    pass.sequences[i].tapped = &sequence.tapped;
  }

  at::Tensor hidden = decoder_->Run(pass);
  pass.Tap(NormedTap(info_.config.num_layers), hidden);
  std::vector<int64_t> wanted;
  for (size_t i = 0; i < batch.size(); ++i) {
    const PassSequence& part = pass.sequences[i];
    Get(batch[i].cache).last_parents = part.tree.parents;
    const int64_t end = part.first_row + part.tree.rows();
    for (int64_t row = end - batch[i].num_logit_rows; row < end; ++row) {
      wanted.push_back(row);
    }
  }
  if (wanted.empty()) {
    return std::make_unique<TensorRows>(
        at::empty({0, info_.config.vocab_size}));
  }
  if (static_cast<int64_t>(wanted.size()) < hidden.size(0)) {
    hidden = hidden.index_select(/*dim=*/0, LongTensor(wanted));
  }
  return std::make_unique<TensorRows>(decoder_->Logits(hidden).contiguous());
}

absl::Status AtenModel::Keep(CacheId cache, absl::Span<const int32_t> path,
                             absl::Span<uint16_t> features) {
  Sequence& sequence = Get(cache);
  RETURN_IF_ERROR(CheckPath(sequence.last_parents, path));
  RETURN_IF_ERROR(sequence.tapped.Copy(path, features));
  return CatchTorch([&] {
    const c10::InferenceMode no_autograd;
    sequence.kv.Keep(path);
    sequence.last_parents.clear();
    sequence.tapped.Clear();
    return absl::OkStatus();
  });
}

void AtenModel::Truncate(CacheId cache, int64_t length) {
  Sequence& sequence = Get(cache);
  sequence.kv.Truncate(length);
  sequence.last_parents.clear();
  sequence.tapped.Clear();
}

}  // namespace espalier
