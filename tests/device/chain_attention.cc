#include "tests/device/chain_attention.h"

#include <numeric>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"
#include "common/cuda/layout.h"
#include "common/cuda/product_shape.h"

namespace espalier::cuda {
namespace {

template <typename T>
absl::StatusOr<DeviceArray<T>> ArrayOf(ComputeDevice& device,
                                       const std::vector<T>& values) {
  ASSIGN_OR_RETURN(auto array,
                   DeviceArray<T>::Make(device, std::ssize(values)));
  array.Write(0, values);
  RETURN_IF_ERROR(device.Wait(device.Record()));
  return array;
}

std::vector<PrefixItem> PrefixItems(int pages, int queries, int step) {
  std::vector<PrefixItem> items;
  for (int chunk = 0; ChunkBegin(chunk) < pages; ++chunk) {
    for (int q = 0; q < queries; q += step) items.push_back({0, chunk, q});
  }
  return items;
}
std::vector<TreeItem> TreeItems(int rows, int step) {
  std::vector<TreeItem> items;
  for (int row = 0; row < rows; row += step) items.push_back({0, row});
  return items;
}

}  // namespace

absl::StatusOr<AttentionOfLayers> AttentionOfLayers::Make(
    ComputeDevice& device, const ChainAttention& shape, int layers, int rows,
    unsigned char* out) {
  AttentionOfLayers attention(shape, layers, rows);
  RETURN_IF_ERROR(attention.Allocate(device));
  attention.Describe(out);
  return attention;
}

absl::Status AttentionOfLayers::Allocate(ComputeDevice& device) {
  const auto [kv_heads, group, dim, prefix] = shape_;
  // Numbers of bf16 between 0.5 and 2.
  std::vector<unsigned char> kv(pages() *
                                PanelOffset(dim, kv_heads, layers_, 0, 0));
  for (size_t i = 0; i < kv.size(); ++i) {
    kv[i] = i % 2 == 1 ? 0x3f : static_cast<unsigned char>(i / 2 * 37);
  }
  std::vector<int32_t> table(pages());
  std::iota(table.begin(), table.end(), 0);
  std::vector<PassRow> pass_rows;
  std::vector<uint16_t> path(rows_);  // of the last row, and of all before it
  std::iota(path.begin(), path.end(), uint16_t{0});
  for (int row = 0; row < rows_; ++row) {
    pass_rows.push_back({.position = prefix + row, .slot = prefix + row});
  }
  std::vector<float> angles(int64_t{prefix + rows_} * dim);
  for (size_t i = 0; i < angles.size(); ++i) {
    angles[i] = i % 2 == 0 ? 0.8f : 0.6f;
  }
  const std::vector<PassSequence> sequence = {
      {.prefix = prefix, .rows = rows_}};
  ASSIGN_OR_RETURN(pages_, ArrayOf(device, kv));
  ASSIGN_OR_RETURN(table_, ArrayOf(device, table));
  ASSIGN_OR_RETURN(pass_rows_, ArrayOf(device, pass_rows));
  ASSIGN_OR_RETURN(sequence_, ArrayOf(device, sequence));
  ASSIGN_OR_RETURN(paths_, ArrayOf(device, path));
  ASSIGN_OR_RETURN(angles_, ArrayOf(device, angles));
  const int64_t queries = int64_t{rows_} * kv_heads * group;
  const int64_t chunks =
      whole_pages() == 0 ? 0 : ChunkOf(whole_pages() - 1) + 1;
  ASSIGN_OR_RETURN(queries_,
                   DeviceArray<uint16_t>::Make(device, queries * dim));
  ASSIGN_OR_RETURN(
      states_, DeviceArray<float>::Make(device, chunks * queries * (dim + 2)));
  return AllocateItems(device);
}

absl::Status AttentionOfLayers::AllocateItems(ComputeDevice& device) {
  const int queries = rows_ * shape_.group;
  ASSIGN_OR_RETURN(
      prefix_items_,
      ArrayOf(device, PrefixItems(whole_pages(), queries, kPrefixItemQueries)));
  ASSIGN_OR_RETURN(
      layer_prefix_items_,
      ArrayOf(device, PrefixItems(whole_pages(), queries, kLayerItemQueries)));
  ASSIGN_OR_RETURN(tree_items_,
                   ArrayOf(device, TreeItems(rows_, kTreeItemRows)));
  ASSIGN_OR_RETURN(layer_tree_items_,
                   ArrayOf(device, TreeItems(rows_, kLayerItemRows)));
  return absl::OkStatus();
}

void AttentionOfLayers::Describe(unsigned char* out) {
  const auto [kv_heads, group, dim, prefix] = shape_;
  const KvPages kv = {
      pages_.data(),
      static_cast<int64_t>(PanelOffset(dim, kv_heads, layers_, 0, 0)),
      table_.data()};
  args_.prepare = {.parts = {},
                   .angles = angles_.data(),
                   .rows = pass_rows_.data(),
                   .sequences = sequence_.data(),
                   .num_rows = rows_,
                   .heads = kv_heads * group,
                   .kv_heads = kv_heads,
                   .head_dim = dim,
                   .kv = kv,
                   .queries = queries_.data()};
  args_.attend = {.queries = queries_.data(),
                  .kv = kv,
                  .rows = pass_rows_.data(),
                  .sequences = sequence_.data(),
                  .paths = paths_.data(),
                  .prefix_items = prefix_items_.data(),
                  .tree_items = tree_items_.data(),
                  .num_prefix_items = static_cast<int>(prefix_items_.size()),
                  .num_tree_items = static_cast<int>(tree_items_.size()),
                  .tree_pages = pages() - whole_pages(),
                  .kv_heads = kv_heads,
                  .group = group,
                  .head_dim = dim,
                  .scale = AttendScale(dim),
                  .states = states_.data(),
                  .out = out,
                  .out_block = RowBlock(rows_)};
  args_.prefix_items = layer_prefix_items_.data();
  args_.tree_items = layer_tree_items_.data();
  args_.num_prefix_items = static_cast<int>(layer_prefix_items_.size());
  args_.num_tree_items = static_cast<int>(layer_tree_items_.size());
}

LayerChainArgs AttentionOfLayers::LayerOf(int layer, const ChainArgs& chain,
                                          const float* qkv) const {
  LayerChainArgs args = args_;
  const ProductArgs& product = chain.products[3];
  args.prepare.parts = {
      .values = qkv,
      .splits = ProductSplits(product.outputs, product.inputs),
      .padded_rows = PaddedRows(rows_),
      .outputs = product.outputs};
  args.prepare.kv.pages +=
      PanelOffset(shape_.head_dim, shape_.kv_heads, layer, 0, 0);
  args.attend.kv.pages = args.prepare.kv.pages;
  args.chain = chain;
  return args;
}

}  // namespace espalier::cuda
