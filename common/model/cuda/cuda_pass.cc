#include "common/model/cuda/cuda_pass.h"

#include <algorithm>

#include "common/cuda/layout.h"

namespace espalier {

using cuda::kPagePositions;

namespace {

// Returns whether each row from `first` on sees all rows before it, itself and
// no others.
bool IsChain(const RowTree& tree, int first) {
  for (int64_t row = first; row < tree.rows(); ++row) {
    const absl::Span<const int32_t> seen = tree.AncestorsOf(row);
    if (std::ssize(seen) != row + 1 || seen.back() != row) return false;
  }
  return true;
}

}  // namespace

CudaPass::CudaPass(const ModelConfig& config)
    : kv_heads_(static_cast<int>(config.num_kv_heads)),
      group_(static_cast<int>(config.num_heads / config.num_kv_heads)),
      head_dim_(static_cast<int>(config.head_dim)) {
  for (const LayerShape& layer : config.layers) prefix_items[layer.window];
}

void CudaPass::Add(absl::Span<const TokenId> row_tokens, const RowTree& tree,
                   absl::Span<const absl::Span<const int32_t>> tables,
                   int64_t logits_wanted) {
  page_tables.resize(tables.size());
  const auto sequence = static_cast<int32_t>(sequences.size());
  const auto prefix = static_cast<int32_t>(tree.prefix);
  const auto count = static_cast<int32_t>(tree.rows());
  const int32_t cached = count - static_cast<int32_t>(row_tokens.size());
  sequences.push_back(
      {.prefix = prefix,
       .first_row = num_rows() - cached,
       .rows = count,
       .table_begin = static_cast<int32_t>(page_tables[0].size()),
       .states_begin = num_states});
  tokens.insert(tokens.end(), row_tokens.begin(), row_tokens.end());
  for (size_t i = 0; i < tables.size(); ++i) {
    page_tables[i].insert(page_tables[i].end(), tables[i].begin(),
                          tables[i].end());
  }
  const auto paths_begin = static_cast<int32_t>(paths.size());
  paths.insert(paths.end(), tree.ancestors.begin(), tree.ancestors.end());
  for (int32_t row = cached; row < count; ++row) {
    const auto seen = static_cast<int32_t>(tree.AncestorsOf(row).size());
    rows.push_back({.sequence = sequence,
                    .position = prefix + seen - 1,
                    .slot = prefix + row,
                    .path_begin = paths_begin + static_cast<int32_t>(
                                                    tree.ancestor_begin[row])});
    rotated_rows.push_back(rows.back());
    rotated_rows.back().position = static_cast<int32_t>(tree.positions[row]);
    logit_rows.push_back(row >= count - logits_wanted ? num_logit_rows++ : -1);
  }
  AddItems(sequences.back(), tree, cached);
}

void CudaPass::ForgetAttention() {
  for (auto& [window, items] : prefix_items) items.clear();
  tree_items.clear();
  chain_items.clear();
  num_states = 0;
}

void CudaPass::AddItems(const cuda::PassSequence& sequence, const RowTree& tree,
                        int first) {
  AddPrefixItems(sequence, first);
  const auto index = static_cast<int32_t>(sequences.size()) - 1;
  if (cuda::AttendsChain(head_dim_, sequence.rows - first) &&
      IsChain(tree, first)) {
    for (int query = first * group_; query < sequence.rows * group_;
         query += cuda::kChainItemQueries) {
      chain_items.push_back({index, query});
    }
    return;
  }
  for (int row = first; row < sequence.rows; row += cuda::kTreeItemRows) {
    tree_items.push_back({index, row});
  }
  const int first_page = sequence.prefix / kPagePositions;
  const int last_page = (sequence.prefix + sequence.rows - 1) / kPagePositions;
  tree_pages = std::max(tree_pages, last_page - first_page + 1);
}

void CudaPass::AddPrefixItems(const cuda::PassSequence& sequence, int first) {
  const auto index = static_cast<int32_t>(sequences.size()) - 1;
  const int whole_pages = sequence.prefix / kPagePositions;
  const int chunks = whole_pages == 0 ? 0 : cuda::ChunkOf(whole_pages - 1) + 1;
  const int queries = sequence.rows * group_;
  for (auto& [window, items] : prefix_items) {
    const int seen =
        window == 0
            ? 0
            : cuda::FirstSeenPage(sequence.prefix, static_cast<int>(window));
    if (seen >= whole_pages) continue;
    for (int chunk = cuda::ChunkOf(seen); chunk < chunks; ++chunk) {
      for (int query = first * group_; query < queries;
           query += cuda::kPrefixItemQueries) {
        items.push_back({index, chunk, query});
      }
    }
  }
  num_states += int64_t{chunks} * kv_heads_ * queries;
}

}  // namespace espalier
