#include "common/model/cuda/cuda_model.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/cuda/layout.h"
#include "common/model/model_fingerprint.h"
#include "common/model/native/model_limits.h"
#include "common/model/native/row_batch.h"
#include "common/model/native/tapped_rows.h"

namespace espalier {

CudaModel::CudaModel(Parts parts)
    : info_(std::move(parts.info)),
      device_(std::move(parts.device)),
      weights_(std::move(parts.weights)),
      pages_(std::move(parts.pages)),
      feature_ring_(std::move(parts.feature_ring)),
      graphs_(parts.replays_graphs ? std::make_unique<LaunchGraphs>(*device_)
                                   : nullptr),
      decoder_(info_.config, weights_, std::move(parts.angles), *device_,
               pass_queue()),
      logits_(device_),
      states_(device_),
      requests_(*device_),
      answers_(*device_) {}

absl::StatusOr<std::unique_ptr<CudaModel>> CudaModel::Make(Parts parts) {
  auto model = absl::WrapUnique(new CudaModel(std::move(parts)));
  const int rows = static_cast<int>(model->info_.max_chain_rows);
  const int logit_rows = static_cast<int>(model->info_.max_rows);
  RETURN_IF_ERROR(model->decoder_.Reserve(rows, logit_rows));
  RETURN_IF_ERROR(model->logits_.Take(model->LogitsSize(logit_rows)).status());
  return model;
}

cuda::KernelQueue& CudaModel::pass_queue() const {
  if (graphs_ == nullptr) return *device_;
  return *graphs_;
}

int64_t CudaModel::LogitsSize(int rows) const {
  return std::max(1, cuda::PaddedRows(rows)) * decoder_.logit_stride();
}

KvUsage CudaModel::kv_usage() const {
  const PagePool<int32_t>& pages = pages_->pages();
  return {.used_tokens = pages.room().used_tokens(),
          .total_tokens = pages.room().total_tokens(),
          .cached_tokens = pages.cached_tokens(),
          .evicted_tokens = pages.evicted_tokens()};
}

DeviceMemory CudaModel::device_memory() const {
  const cuda::DeviceInfo info = device_->info();
  return {.used_bytes = info.memory_bytes - info.free_bytes,
          .total_bytes = info.memory_bytes};
}

CacheId CudaModel::NewSequence() {
  sequences_.try_emplace(next_id_, pages_.get());
  return next_id_++;
}

void CudaModel::Release(CacheId cache) {
  ESPALIER_CHECK(sequences_.erase(cache) == 1);
}

int64_t CudaModel::Length(CacheId cache) const {
  return Get(cache).kv.length();
}

int64_t CudaModel::HeldRoom(CacheId cache) const {
  return Get(cache).kv.own_tokens();
}

int64_t CudaModel::SharedRoom(CacheId cache) const {
  return Get(cache).kv.shared_tokens();
}

int64_t CudaModel::HeldPrefix(absl::Span<const TokenId> text,
                              absl::string_view salt) const {
  return CudaKvCache(pages_.get()).HeldPrefix(text, salt);
}

int64_t CudaModel::Share(CacheId cache, absl::Span<const TokenId> text,
                         absl::string_view salt) {
  Truncate(cache, Length(cache));  // drops the rows of the last pass
  return Get(cache).kv.Share(text, salt);
}

CudaModel::Sequence& CudaModel::Get(CacheId cache) {
  const auto found = sequences_.find(cache);
  ESPALIER_CHECK(found != sequences_.end());
  return found->second;
}
const CudaModel::Sequence& CudaModel::Get(CacheId cache) const {
  return const_cast<CudaModel*>(this)->Get(cache);
}

absl::StatusOr<std::unique_ptr<LogitRows>> CudaModel::Forward(
    absl::Span<const SequenceRows> batch) {
  RETURN_IF_ERROR(CheckBatch(
      batch, [this](CacheId cache) { return Length(cache); },
      RowLimitsOf(info_)));
  return RunPass(batch);
}

absl::StatusOr<CudaPass> CudaModel::BuildPass(
    absl::Span<const SequenceRows> batch) {
  CudaPass pass(info_.config);
  for (const SequenceRows& rows : batch) {
    CudaKvCache& kv = Get(rows.cache).kv;
    const auto size = static_cast<int64_t>(rows.tokens.size());
    RETURN_IF_ERROR(kv.Reserve(kv.length() + size));
    if (IsChain(rows.parents)) {
      pass.AddChain(rows.tokens, kv.length(), kv.tables(), rows.num_logit_rows);
    } else {
      pass.Add(rows.tokens, BuildRowTree(rows.parents, kv.length()),
               kv.tables(), rows.num_logit_rows);
    }
  }
  return pass;
}

absl::StatusOr<std::shared_ptr<CudaModel::TappedPass>> CudaModel::MakeTapped(
    absl::Span<const SequenceRows> batch, int rows) {
  std::set<int32_t> points;
  for (const SequenceRows& part : batch) {
    points.insert(part.taps.begin(), part.taps.end());
  }
  if (points.empty()) return nullptr;
  auto tapped = std::make_shared<TappedPass>();
  tapped->points.assign(points.begin(), points.end());
  tapped->rows = rows;
  ASSIGN_OR_RETURN(tapped->states, states_.Take(std::ssize(points) * rows *
                                                info_.config.hidden_size));
  return tapped;
}

absl::StatusOr<std::unique_ptr<LogitRows>> CudaModel::RunPass(
    absl::Span<const SequenceRows> batch) {
  ASSIGN_OR_RETURN(const CudaPass pass, BuildPass(batch));
  ASSIGN_OR_RETURN(const std::shared_ptr<TappedPass> tapped,
                   MakeTapped(batch, pass.num_rows()));
  CudaDecoder::Target target = {.pages = pages_->memory()};
  if (tapped != nullptr) {
    target.taps = tapped->points;
    target.states = tapped->states->data();
  }
  ASSIGN_OR_RETURN(auto logits, logits_.Take(LogitsSize(pass.num_logit_rows)));
  auto rows = std::make_unique<CudaRows>(device_, std::move(logits),
                                         info_.config.vocab_size,
                                         decoder_.logit_stride());
  target.logits = rows->logits();

  RETURN_IF_ERROR(requests_.Clear());
  RETURN_IF_ERROR(answers_.Clear());
  RETURN_IF_ERROR(decoder_.Describe(pass, requests_));
  RETURN_IF_ERROR(AddUses(batch, pass, *rows));
  for (const SequenceRows& part : batch) Get(part.cache).ForgetPass();
  requests_.Send();
  decoder_.Launch(pass, target);
  if (graphs_ != nullptr) graphs_->Flush();
  rows->Launch();
  RETURN_IF_ERROR(answers_.Receive());
  rows->TakeAnswers();
  for (size_t i = 0; i < batch.size(); ++i) {
    Sequence& sequence = Get(batch[i].cache);
    sequence.last_parents.assign(batch[i].parents.begin(),
                                 batch[i].parents.end());
    if (batch[i].taps.empty()) continue;
    sequence.first_row = pass.sequences[i].first_row;
    sequence.taps.assign(batch[i].taps.begin(), batch[i].taps.end());
    sequence.tapped = tapped;
  }
  return rows;
}

absl::Status CudaModel::AddUses(absl::Span<const SequenceRows> batch,
                                const CudaPass& pass, CudaRows& rows) {
  for (size_t i = 0; i < batch.size(); ++i) {
    const cuda::PassSequence& sequence = pass.sequences[i];
    CudaRows::Part part = {.rows = batch[i].num_logit_rows,
                           .use = batch[i].use,
                           .ranks = batch[i].ranks};
    const int64_t end = sequence.first_row + sequence.rows;
    for (int64_t row = end - part.rows; row < end; ++row) {
      part.positions.push_back(int64_t{pass.rows[row].position} + 1);
    }
    RETURN_IF_ERROR(rows.Add(part, requests_, answers_));
  }
  return absl::OkStatus();
}

std::vector<int32_t> CudaModel::RowsOfPass(const Sequence& sequence,
                                           absl::Span<const int32_t> path) {
  std::vector<int32_t> rows(path.begin(), path.end());
  for (int32_t& row : rows) row += sequence.first_row;
  return rows;
}

absl::StatusOr<std::vector<RingSegment>> CudaModel::Store(
    CacheId cache, absl::Span<const int32_t> path,
    absl::Span<const int32_t> taps) {
  const Sequence& sequence = Get(cache);
  RETURN_IF_ERROR(CheckPath(sequence.last_parents, path));
  if (sequence.tapped == nullptr) return std::vector<RingSegment>();
  return feature_ring_->Put(
      taps,
      {.states = sequence.tapped->states->data(),
       .points = sequence.tapped->points,
       .rows = sequence.tapped->rows,
       .hidden = static_cast<int>(info_.config.hidden_size)},
      RowsOfPass(sequence, path), sequence.kv.length());
}

absl::StatusOr<std::vector<RingSegment>> CudaModel::StoreRows(
    absl::Span<const int32_t> taps, absl::Span<const uint16_t> rows,
    int64_t position) {
  return feature_ring_->PutRows(
      rows, std::ssize(taps) * info_.config.hidden_size, position);
}

absl::StatusOr<CudaModel::MaybeLaunch> CudaModel::GatherFeatures(
    const Sequence& sequence, absl::Span<const int32_t> path,
    absl::Span<const cuda::bf16_t>& features) {
  const TappedPass& tapped = *sequence.tapped;
  const int64_t hidden = info_.config.hidden_size;
  const std::vector<int32_t> kept = RowsOfPass(sequence, path);
  std::vector<int32_t> points;
  for (int32_t tap : sequence.taps) {
    points.push_back(static_cast<int32_t>(
        std::lower_bound(tapped.points.begin(), tapped.points.end(), tap) -
        tapped.points.begin()));
  }
  ASSIGN_OR_RETURN(const auto* rows, requests_.Put(kept));
  ASSIGN_OR_RETURN(const auto* taken, requests_.Put(points));
  ASSIGN_OR_RETURN(const auto gathered,
                   answers_.Reserve<cuda::bf16_t>(std::ssize(kept) *
                                                  std::ssize(points) * hidden));
  features = gathered.here;
  return cuda::GatherTapsArgs{.taps = tapped.states->data(),
                              .points = taken,
                              .kept = rows,
                              .num_taps = static_cast<int>(points.size()),
                              .rows = tapped.rows,
                              .hidden = static_cast<int>(hidden),
                              .num_kept = static_cast<int>(kept.size()),
                              .out = gathered.there};
}

absl::StatusOr<CudaModel::MaybeLaunch> CudaModel::MoveRows(
    const Sequence& sequence, absl::Span<const int32_t> path) {
  bool moves = false;
  for (size_t i = 0; i < path.size(); ++i) {
    moves |= path[i] != static_cast<int32_t>(i);
  }
  if (!moves) return std::nullopt;
  const ModelConfig& config = info_.config;
  std::vector<int32_t> tables;
  std::vector<cuda::KeepSequence> groups;  // each with the rows of the path
  for (const absl::Span<const int32_t> pages : sequence.kv.tables()) {
    groups.push_back({.prefix = static_cast<int32_t>(sequence.kv.length()),
                      .table_begin = static_cast<int32_t>(tables.size()),
                      .path_size = static_cast<int32_t>(path.size())});
    tables.insert(tables.end(), pages.begin(), pages.end());
  }
  ASSIGN_OR_RETURN(const auto* table, requests_.Put(tables));
  ASSIGN_OR_RETURN(const auto* sequences, requests_.Put(groups));
  ASSIGN_OR_RETURN(const auto* paths, requests_.Put(std::vector<uint16_t>(
                                          path.begin(), path.end())));
  const auto panels = static_cast<int>(
      config.num_layers / info_.kv_groups.count() * config.num_kv_heads * 2);
  const auto dim = static_cast<int>(config.head_dim);
  return cuda::KeepArgs{.kv = {.pages = pages_->memory(),
                               .page_bytes = pages_->page_bytes(),
                               .page_table = table},
                        .sequences = sequences,
                        .paths = paths,
                        .num_sequences = static_cast<int>(groups.size()),
                        .panels = panels,
                        .head_dim = dim};
}

// Waits only for features: K/V is moved before the next pass reads it.
absl::Status CudaModel::Keep(CacheId cache, absl::Span<const int32_t> path,
                             absl::Span<uint16_t> features) {
  Sequence& sequence = Get(cache);
  RETURN_IF_ERROR(CheckPath(sequence.last_parents, path));
  RETURN_IF_ERROR(
      CheckFeatureRoom(features.size(), path.size(),
                       std::ssize(sequence.taps) * info_.config.hidden_size));
  RETURN_IF_ERROR(requests_.Clear());
  RETURN_IF_ERROR(answers_.Clear());
  MaybeLaunch gather, move;
  absl::Span<const cuda::bf16_t> gathered;
  if (!features.empty()) {
    ASSIGN_OR_RETURN(gather, GatherFeatures(sequence, path, gathered));
  }
  ASSIGN_OR_RETURN(move, MoveRows(sequence, path));
  if (gather.has_value() || move.has_value()) requests_.Send();
  if (gather.has_value()) device_->Launch(*gather);
  if (move.has_value()) device_->Launch(*move);
  if (gather.has_value()) {
    RETURN_IF_ERROR(answers_.Receive());
    std::copy(gathered.begin(), gathered.end(), features.begin());
  }
  sequence.kv.Advance(std::ssize(path));
  Truncate(cache, sequence.kv.length());  // also the room of the dropped rows
  return absl::OkStatus();
}

void CudaModel::Sequence::ForgetPass() {
  last_parents.clear();
  taps.clear();
  tapped.reset();
}

void CudaModel::Truncate(CacheId cache, int64_t length) {
  Sequence& sequence = Get(cache);
  sequence.kv.Truncate(length);
  sequence.ForgetPass();
}

absl::StatusOr<std::unique_ptr<LanguageModel>> LoadCudaModel(
    const ModelOptions& options, std::shared_ptr<cuda::ComputeDevice> device) {
  RETURN_IF_ERROR(CheckOptions(options));
  ASSIGN_OR_RETURN(const ModelConfig config, ReadModelConfig(options.folder));
  RETURN_IF_ERROR(CheckCudaCovers(config));
  const ComputeDType compute_dtype =
      options.compute_dtype.value_or(ComputeDType::kBFloat16);
  if (!absl::c_linear_search(kGpuComputeDTypes, compute_dtype)) {
    return absl::UnimplementedError(
        absl::StrCat("compute type ", NameOf(compute_dtype),
                     ": the CUDA backend has bfloat16 and fp8"));
  }
  const nn::KvType kv_type = DefaultKvType(compute_dtype);
  RETURN_IF_ERROR(CheckKvType(options, kv_type, "the CUDA backend"));
  ASSIGN_OR_RETURN(const WeightFiles files,
                   WeightFiles::Open(options.folder, options.random_weights));
  RETURN_IF_ERROR(CheckLayerCount(config, files));
  ModelInfo info = {
      .config = config,
      .device = options.device,
      .compute_dtype = NameOf(compute_dtype),
      .kv_cache_type = nn::NameOf(kv_type),
      .backend = "cuda",
      .fingerprint = ModelFingerprint(config, files, compute_dtype, kv_type,
                                      cuda::kKernelBits)};
  if (options.feature_ring != nullptr) {
    info.feature_ring = options.feature_ring->info();
  }
  nn::ThreadPool pool({.threads = options.threads});
  ASSIGN_OR_RETURN(
      CudaWeights weights,
      LoadCudaWeights(config, files, *device, pool,
                      {.layers = CudaWeightTypeOf(compute_dtype)}));
  info.weight_bytes = weights.bytes;
  const auto head_dim = static_cast<int>(config.head_dim);
  ASSIGN_OR_RETURN(
      const int64_t pool_tokens,
      SetLimits(options,
                {.head_bytes = 2 * config.head_dim * 2,
                 .groups = CudaKvStore::GroupsOf(config),
                 .most_chain_rows = cuda::MostChainRows(head_dim),
                 // Nothing else grows with sessions and texts; the rest is for
                 // what passes need.
                 .default_pool_bytes = device->info().free_bytes / 10 * 9},
                info));
  info.max_rows =
      std::min<int64_t>(info.max_rows, cuda::MostTreeRows(head_dim));
  info.max_chain_rows =
      std::min<int64_t>(info.max_chain_rows, cuda::MostChainRows(head_dim));
  for (int rows = cuda::RowBlock(1); rows <= info.max_rows;
       rows = cuda::RowBlock(rows + 1)) {
    info.row_edges.push_back(rows);
    if (rows == cuda::kMaxRowsOfBlock) break;
  }
  ASSIGN_OR_RETURN(auto angles,
                   MakeCudaAngles(config, info.max_context, *device));
  info.shares_kv = true;
  const CudaKvStore::Room room = {
      .total_tokens = pool_tokens,
      .max_cached_tokens = CachedTokens(options, info, pool_tokens)};
  ASSIGN_OR_RETURN(auto pages, CudaKvStore::Make(config, room, device));
  return CudaModel::Make({.info = std::move(info),
                          .device = std::move(device),
                          .weights = std::move(weights),
                          .angles = std::move(angles),
                          .pages = std::move(pages),
                          .feature_ring = options.feature_ring,
                          .replays_graphs = options.cuda_graphs});
}

}  // namespace espalier
