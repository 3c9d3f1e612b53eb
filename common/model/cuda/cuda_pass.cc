#include "common/model/cuda/cuda_pass.h"

#include <algorithm>
#include <numeric>

#include "common/cuda/layout.h"

namespace espalier {

using cuda::kPagePositions;

namespace {

int ChunksOfPages(int whole_pages) {
  return whole_pages == 0 ? 0 : cuda::ChunkOf(whole_pages - 1) + 1;
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
  const auto count = static_cast<int32_t>(tree.rows());
  const int32_t cached = count - static_cast<int32_t>(row_tokens.size());
  AddSequence(row_tokens, tree.prefix, cached, tables);
  const int32_t index = last_sequence(), prefix = sequences.back().prefix;
  const auto paths_begin = static_cast<int32_t>(paths.size());
  paths.insert(paths.end(), tree.ancestors.begin(), tree.ancestors.end());
  for (int32_t row = cached; row < count; ++row) {
    const auto seen = static_cast<int32_t>(tree.AncestorsOf(row).size());
    AddRow({.sequence = index,
            .position = prefix + seen - 1,
            .slot = prefix + row,
            .path_begin =
                paths_begin + static_cast<int32_t>(tree.ancestor_begin[row])},
           tree.positions[row], logits_wanted);
  }
  AddPrefixItems(cached);
  AddTreeItems(cached);
}

void CudaPass::AddChain(absl::Span<const TokenId> row_tokens, int64_t prefix,
                        absl::Span<const absl::Span<const int32_t>> tables,
                        int64_t logits_wanted) {
  const auto count = static_cast<int32_t>(row_tokens.size());
  if (!cuda::AttendsChain(head_dim_, count)) {
    std::vector<int32_t> parents(count);
    std::iota(parents.begin(), parents.end(), kPrefixParent);
    Add(row_tokens, BuildRowTree(parents, prefix), tables, logits_wanted);
    return;
  }
  AddSequence(row_tokens, prefix, /*cached=*/0, tables);
  for (int32_t row = 0; row < count; ++row) {
    const int32_t place = sequences.back().prefix + row;
    AddRow({.sequence = last_sequence(), .position = place, .slot = place},
           place, logits_wanted);
  }
  AddPrefixItems(0);
  AddChainItems();
}

void CudaPass::AddSequence(absl::Span<const TokenId> row_tokens, int64_t prefix,
                           int32_t cached,
                           absl::Span<const absl::Span<const int32_t>> tables) {
  page_tables.resize(tables.size());
  sequences.push_back(
      {.prefix = static_cast<int32_t>(prefix),
       .first_row = num_rows() - cached,
       .rows = cached + static_cast<int32_t>(row_tokens.size()),
       .table_begin = static_cast<int32_t>(page_tables[0].size()),
       .states_begin = num_states});
  tokens.insert(tokens.end(), row_tokens.begin(), row_tokens.end());
  for (size_t i = 0; i < tables.size(); ++i) {
    page_tables[i].insert(page_tables[i].end(), tables[i].begin(),
                          tables[i].end());
  }
}

void CudaPass::AddRow(const cuda::PassRow& row, int64_t text_position,
                      int64_t logits_wanted) {
  rows.push_back(row);
  rotated_rows.push_back(row);
  rotated_rows.back().position = static_cast<int32_t>(text_position);
  const cuda::PassSequence& sequence = sequences.back();
  const int64_t end = sequence.prefix + sequence.rows;
  logit_rows.push_back(row.slot >= end - logits_wanted ? num_logit_rows++ : -1);
}

void CudaPass::ForgetAttention() {
  for (auto& [window, items] : prefix_items) items.clear();
  tree_items.clear();
  chain_items.clear();
  num_states = 0;
}

void CudaPass::AddTreeItems(int first) {
  const cuda::PassSequence& sequence = sequences.back();
  const int32_t index = last_sequence();
  for (int row = first; row < sequence.rows; row += cuda::kTreeItemRows) {
    tree_items.push_back({index, row});
  }
  const int first_page = sequence.prefix / kPagePositions;
  const int last_page = (sequence.prefix + sequence.rows - 1) / kPagePositions;
  tree_pages = std::max(tree_pages, last_page - first_page + 1);
}

void CudaPass::AddChainItems() {
  const int32_t index = last_sequence();
  const int queries = sequences.back().rows * group_;
  for (int query = 0; query < queries; query += cuda::kChainItemQueries) {
    chain_items.push_back({index, query});
  }
}

void CudaPass::AddPrefixItems(int first) {
  const cuda::PassSequence& sequence = sequences.back();
  const int32_t index = last_sequence();
  const int whole_pages = sequence.prefix / kPagePositions;
  const int chunks = ChunksOfPages(whole_pages);
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

CudaPass::LayerItems CudaPass::DivideForLayerChain() const {
  LayerItems items;
  int32_t last = -1;
  for (const cuda::TreeItem& item : tree_items) {
    if (item.sequence != last)
      AddLayerItems(item.sequence, item.first_row, items);
    last = item.sequence;
  }
  return items;
}

void CudaPass::AddLayerItems(int32_t index, int first,
                             LayerItems& items) const {
  const cuda::PassSequence& sequence = sequences[index];
  const int chunks = ChunksOfPages(sequence.prefix / kPagePositions);
  const int queries = sequence.rows * group_;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    for (int query = first * group_; query < queries;
         query += cuda::kLayerItemQueries) {
      items.prefix.push_back({index, chunk, query});
    }
  }
  for (int row = first; row < sequence.rows; row += cuda::kLayerItemRows) {
    items.tree.push_back({index, row});
  }
}

}  // namespace espalier
