#include "drafter/heads/cuda_row_model.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/cuda/layout.h"
#include "common/model/cuda/device_vectors.h"
#include "common/model/native/row_batch.h"

namespace espalier::drafter {

CudaKvStore::Room DeviceRoom(const HeadRuntime& runtime,
                             const ModelConfig& layers, int64_t total_tokens) {
  return {.total_tokens = total_tokens * CudaKvStore::GroupsOf(layers).count(),
          .max_cached_tokens =
              runtime.prefix_cache_bytes / CudaKvStore::TokenBytes(layers)};
}

absl::Status CudaNetwork::Finish(DraftVocabulary vocabulary, int64_t positions,
                                 CudaKvStore::Room room) {
  constexpr int64_t kShare = 10;
  max_positions = positions;
  ASSIGN_OR_RETURN(angles, MakeCudaAngles(config, positions, *device));
  room.total_tokens =
      std::min(room.total_tokens, device->info().free_bytes / kShare /
                                      CudaKvStore::TokenBytes(config));
  ASSIGN_OR_RETURN(store, CudaKvStore::Make(config, room, device));
  ASSIGN_OR_RETURN(candidates, CudaCandidates::Make(
                                   std::move(vocabulary),
                                   weights.head_or_tokens().outputs, *device));
  return absl::OkStatus();
}

CudaRowModel::CudaRowModel(CudaNetwork network, FeatureContract features)
    : network_(std::move(network)),
      features_(std::move(features), *network_.device),
      decoder_(network_.config, network_.weights, std::move(network_.angles),
               *network_.device, *network_.device),
      logits_(network_.weights.head_or_tokens(), *network_.device,
              *network_.device),
      requests_(*network_.device),
      answers_(*network_.device),
      outputs_(network_.config.hidden_size, *network_.device) {}

// Waits, because queued kernels may still read memory of the host.
CudaRowModel::~CudaRowModel() {
  static_cast<void>(device().Wait(device().Record()));
}

RowModel::Sequence CudaRowModel::NewSequence() {
  sequences_.try_emplace(next_sequence_, network_.store.get());
  return next_sequence_++;
}

void CudaRowModel::Release(Sequence sequence) {
  State& state = Get(sequence);
  ForgetTree(0, state);
  if (state.last_output >= 0) outputs_.Return(state.last_output);
  sequences_.erase(sequence);
}

CudaRowModel::State& CudaRowModel::Get(Sequence sequence) {
  const auto found = sequences_.find(sequence);
  ESPALIER_CHECK(found != sequences_.end());
  return found->second;
}

const CudaRowModel::State& CudaRowModel::Get(Sequence sequence) const {
  return const_cast<CudaRowModel*>(this)->Get(sequence);
}

void CudaRowModel::ForgetTree(size_t kept, State& state) {
  while (state.outputs.size() > kept) {
    outputs_.Return(state.outputs.back());
    state.outputs.pop_back();
  }
}

int64_t CudaRowModel::Length(Sequence sequence) const {
  return Get(sequence).cache.length();
}

void CudaRowModel::Truncate(Sequence sequence, int64_t length) {
  State& state = Get(sequence);
  state.cache.Truncate(length);
  ForgetTree(0, state);
}

absl::Status CudaRowModel::Reserve(Sequence sequence, int64_t rows) {
  if (rows > network_.max_positions) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "a draft network of ", network_.max_positions, " positions"));
  }
  return Get(sequence).cache.Reserve(rows);
}

void CudaRowModel::Share(Sequence sequence, absl::Span<const TokenId> labels,
                         absl::string_view salt) {
  if (!network_.store->caches()) return;
  State& state = Get(sequence);
  ForgetTree(0, state);
  state.cache.Share(labels, salt);
}

FeatureStore* CudaRowModel::features() {
  return features_.contract().taps.empty() ? nullptr : &features_;
}

absl::Status CudaRowModel::Append(Sequence sequence,
                                  absl::Span<const TokenId> tokens,
                                  const States& states) {
  State& state = Get(sequence);
  ForgetTree(0, state);
  if (state.last_output < 0) {
    ASSIGN_OR_RETURN(state.last_output, outputs_.Take());
  }
  const int64_t count = std::ssize(tokens);
  RowPlaces rows = {.to_rows = std::vector<int32_t>(count, -1)};
  rows.to_rows.back() = state.last_output;
  if (features() != nullptr) {
    ASSIGN_OR_RETURN(
        rows.states,
        features_.Rows(states.id, {states.position, states.position + count}));
  }
  CudaPass pass(config());
  pass.AddChain(tokens, state.cache.length(), state.cache.tables(),
                /*num_logit_rows=*/0);
  RETURN_IF_ERROR(RunPass(pass, rows));
  state.cache.Advance(count);
  return absl::OkStatus();
}

absl::Status CudaRowModel::Run(absl::Span<const TreeRows> batch) {
  CudaPass pass(config());
  RowPlaces rows;
  for (const TreeRows& part : batch) {
    State& state = Get(part.sequence);
    const size_t cached = part.parents.size() - part.tokens.size();
    ForgetTree(cached, state);  // of an older tree
    for (int32_t parent : part.parents.subspan(cached)) {
      rows.parents.push_back(parent == kPrefixParent ? state.last_output
                                                     : state.outputs[parent]);
    }
    for (size_t i = 0; i < part.tokens.size(); ++i) {
      ASSIGN_OR_RETURN(const int32_t row, outputs_.Take());
      state.outputs.push_back(row);
      rows.to_rows.push_back(row);
    }
    pass.Add(part.tokens, BuildRowTree(part.parents, state.cache.length()),
             state.cache.tables(), /*num_logit_rows=*/0);
  }
  return RunPass(pass, rows);
}

absl::Status CudaRowModel::RunPass(const CudaPass& pass,
                                   const RowPlaces& rows) {
  RETURN_IF_ERROR(Prepare(pass.num_rows()));
  RETURN_IF_ERROR(requests_.Clear());
  RETURN_IF_ERROR(decoder_.Describe(pass, requests_));
  Places places = {.states = rows.states,
                   .outputs = outputs_.data(),
                   .target = {.pages = network_.store->memory()}};
  ASSIGN_OR_RETURN(places.parents, requests_.Put(rows.parents));
  ASSIGN_OR_RETURN(places.to_rows, requests_.Put(rows.to_rows));
  requests_.Send();
  Launch(pass, places);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::vector<Candidate>>> CudaRowModel::Rank(
    absl::Span<const Query> queries, int64_t width) {
  std::vector<std::vector<Candidate>> ranked;
  while (!queries.empty()) {
    const size_t count =
        std::min<size_t>(queries.size(), CudaCandidates::kMaxQueries);
    ASSIGN_OR_RETURN(std::vector<std::vector<Candidate>> some,
                     RankSome(queries.first(count), width));
    std::move(some.begin(), some.end(), std::back_inserter(ranked));
    queries.remove_prefix(count);
  }
  return ranked;
}

absl::StatusOr<std::vector<std::vector<Candidate>>> CudaRowModel::RankSome(
    absl::Span<const Query> queries, int64_t width) {
  const auto rows = static_cast<int>(queries.size());
  const auto hidden = static_cast<int>(config().hidden_size);
  std::vector<int32_t> outputs;
  std::vector<CandidateHead::Query> wanted;
  for (const Query& query : queries) {
    const State& state = Get(query.sequence);
    outputs.push_back(query.row == kPrefixParent ? state.last_output
                                                 : state.outputs[query.row]);
    wanted.push_back({.sampling = query.sampling, .position = query.position});
  }
  RETURN_IF_ERROR(GrowArray(
      device(), static_cast<int64_t>(cuda::ActivationBytes(rows, hidden)),
      head_input_));
  RETURN_IF_ERROR(logits_.Reserve(rows));
  RETURN_IF_ERROR(requests_.Clear());
  RETURN_IF_ERROR(answers_.Clear());
  ASSIGN_OR_RETURN(const int32_t* const from, requests_.Put(outputs));
  CudaCandidates& candidates = *network_.candidates;
  RETURN_IF_ERROR(candidates.Describe(wanted, width, requests_, answers_));
  requests_.Send();
  device().Launch(cuda::TakeRowsArgs{.from = outputs_.data(),
                                     .from_rows = from,
                                     .rows = rows,
                                     .columns = hidden,
                                     .weight = head_norm(),
                                     .epsilon = epsilon(),
                                     .out = head_input_.data(),
                                     .out_block = cuda::RowBlock(rows),
                                     .out_columns = hidden});
  logits_.Launch(head_input_.data(), rows, candidates.logits());
  candidates.Launch();
  RETURN_IF_ERROR(answers_.Receive());
  return candidates.Take();
}

}  // namespace espalier::drafter
