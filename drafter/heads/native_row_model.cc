#include "drafter/heads/native_row_model.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "common/base/check.h"
#include "common/model/native/row_batch.h"

namespace espalier::drafter {
namespace {

// Adds the rows of a tree that are not cached yet.
void AddRows(RowTree tree, absl::Span<const TokenId> tokens,
             PagedKvCache& cache, NativePass& pass) {
  const int64_t cached = tree.rows() - std::ssize(tokens);
  pass.positions.insert(pass.positions.end(), tree.positions.begin() + cached,
                        tree.positions.end());
  pass.sequences.push_back({.first_row = pass.rows(),
                            .tree = std::move(tree),
                            .cached_rows = cached,
                            .cache = &cache});
  pass.tokens.insert(pass.tokens.end(), tokens.begin(), tokens.end());
}

}  // namespace

RowModel::Sequence NativeRowModel::NewSequence() {
  sequences_.try_emplace(next_sequence_, &pages_);
  return next_sequence_++;
}

void NativeRowModel::Release(Sequence sequence) {
  ESPALIER_CHECK(sequences_.erase(sequence) == 1);
}

NativeRowModel::State& NativeRowModel::Get(Sequence sequence) {
  const auto found = sequences_.find(sequence);
  ESPALIER_CHECK(found != sequences_.end());
  return found->second;
}

const NativeRowModel::State& NativeRowModel::Get(Sequence sequence) const {
  return const_cast<NativeRowModel*>(this)->Get(sequence);
}

int64_t NativeRowModel::Length(Sequence sequence) const {
  return Get(sequence).cache.length();
}

void NativeRowModel::Truncate(Sequence sequence, int64_t length) {
  State& state = Get(sequence);
  state.cache.Truncate(length);
  state.outputs.clear();
}

absl::Status NativeRowModel::Reserve(Sequence sequence, int64_t rows) {
  return Get(sequence).cache.Reserve(rows);
}

void NativeRowModel::Share(Sequence sequence, absl::Span<const TokenId> labels,
                           absl::string_view salt) {
  if (!shares_) return;
  State& state = Get(sequence);
  state.outputs.clear();
  state.cache.Share(labels, salt);
}

FeatureStore* NativeRowModel::features() {
  return features_.contract().taps.empty() ? nullptr : &features_;
}

absl::Status NativeRowModel::Append(Sequence sequence,
                                    absl::Span<const TokenId> tokens,
                                    const States& states) {
  State& state = Get(sequence);
  std::vector<int32_t> chain(tokens.size());
  std::iota(chain.begin(), chain.end(), kPrefixParent);
  NativePass pass;
  AddRows(BuildRowTree(chain, state.cache.length()), tokens, state.cache, pass);
  std::vector<float> features, outputs(tokens.size() * hidden_size_);
  if (NativeRowModel::features() != nullptr) {
    Fuse(features_.Rows(states.id, {states.position,
                                    states.position + std::ssize(tokens)}),
         features);
  }
  RunRows(pass, features, absl::MakeSpan(outputs));
  std::iota(chain.begin(), chain.end(), 0);
  state.cache.Keep(chain);
  state.last_output.assign(outputs.end() - hidden_size_, outputs.end());
  state.outputs.clear();
  return absl::OkStatus();
}

absl::Span<const float> NativeRowModel::OutputOf(const State& state,
                                                 int32_t row) const {
  if (row == kPrefixParent) return state.last_output;
  return absl::MakeConstSpan(state.outputs)
      .subspan(row * hidden_size_, hidden_size_);
}

absl::Status NativeRowModel::Run(absl::Span<const TreeRows> batch) {
  NativePass pass;
  std::vector<float> features;
  for (const TreeRows& rows : batch) {
    State& state = Get(rows.sequence);
    const size_t cached = rows.parents.size() - rows.tokens.size();
    state.outputs.resize(cached * hidden_size_);  // of an older tree: none
    for (int32_t parent : rows.parents.subspan(cached)) {
      const absl::Span<const float> feature = OutputOf(state, parent);
      features.insert(features.end(), feature.begin(), feature.end());
    }
    AddRows(BuildRowTree(rows.parents, state.cache.length()), rows.tokens,
            state.cache, pass);
  }
  std::vector<float> outputs(pass.rows() * hidden_size_);
  RunRows(pass, features, absl::MakeSpan(outputs));
  auto output = outputs.begin();
  for (const TreeRows& rows : batch) {
    std::vector<float>& held = Get(rows.sequence).outputs;
    const auto end = output + std::ssize(rows.tokens) * hidden_size_;
    held.insert(held.end(), output, end);
    output = end;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::vector<Candidate>>> NativeRowModel::Rank(
    absl::Span<const Query> queries, int64_t width) {
  std::vector<float> outputs;
  std::vector<CandidateHead::Query> wanted;
  for (const Query& query : queries) {
    const auto output = OutputOf(Get(query.sequence), query.row);
    outputs.insert(outputs.end(), output.begin(), output.end());
    wanted.push_back({.sampling = query.sampling, .position = query.position});
  }
  return RankOutputs(outputs.data(), wanted, width);
}

}  // namespace espalier::drafter
