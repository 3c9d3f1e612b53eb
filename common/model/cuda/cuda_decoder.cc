#include "common/model/cuda/cuda_decoder.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "common/base/status_macros.h"
#include "common/cuda/chain_shape.h"
#include "common/cuda/layout.h"
#include "common/cuda/product_shape.h"
#include "common/model/cuda/cuda_product.h"
#include "common/model/cuda/device_vectors.h"
#include "common/speculation/features.h"

namespace espalier {

using cuda::ActivationBytes;
using cuda::DeviceArray;
using cuda::RowBlock;

absl::Status CudaDecoder::Reserve(int rows, int logit_rows) {
  const auto hidden = static_cast<uint32_t>(config_.hidden_size);
  const auto attended =
      static_cast<uint32_t>(config_.num_heads * config_.head_dim);
  const CudaLayer& layer = weights_.layers[0];
  int64_t parts =
      std::max(PartsSize(layer.qkv, rows), PartsSize(layer.out, rows));
  int64_t ffn = 0;
  for (int64_t i = 0; i < config_.num_layers; ++i) {
    if (!config_.layers[i].is_dense()) continue;
    parts = std::max(parts, PartsSize(weights_.layers[i].down, rows));
    ffn = std::max(ffn, config_.layers[i].ffn_size);
  }
  RETURN_IF_ERROR(GrowArray(device_, rows * config_.hidden_size, scratch_.x));
  RETURN_IF_ERROR(GrowArray(device_, parts, scratch_.parts));
  const auto activations = [&](int count, uint32_t columns) {
    return static_cast<int64_t>(ActivationBytes(count, columns));
  };
  RETURN_IF_ERROR(
      GrowArray(device_, activations(rows, hidden), scratch_.normed));
  RETURN_IF_ERROR(
      GrowArray(device_, activations(rows, attended), scratch_.attended));
  RETURN_IF_ERROR(GrowArray(
      device_, activations(rows, static_cast<uint32_t>(ffn)), scratch_.gated));
  RETURN_IF_ERROR(mixture_.Reserve(rows));
  RETURN_IF_ERROR(ReserveCounters());
  RETURN_IF_ERROR(
      GrowArray(device_, activations(logit_rows, hidden), scratch_.logit_rows));
  RETURN_IF_ERROR(logits_.Reserve(logit_rows));
  return GrowArray(device_, int64_t{rows} * attended, scratch_.queries);
}

// Chains leave zeros for those after them.
absl::Status CudaDecoder::ReserveCounters() {
  if (resident_blocks_ == 0 || scratch_.chain_counters.size() > 0) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(scratch_.chain_counters,
                   DeviceArray<uint32_t>::Make(device_, cuda::kLayerCounters));
  const std::vector<uint32_t> zeros(cuda::kLayerCounters);
  scratch_.chain_counters.Write(0, zeros);
  return device_.Wait(device_.Record());
}

// Places follow from numbers that the kernels are told anyway: the page table,
// which grows, has room for more, and paths, whose size depends on the trees'
// form, come last. So the kernels' arguments repeat from pass to pass.
absl::Status CudaDecoder::Describe(const CudaPass& pass, Mailbox& requests) {
  RETURN_IF_ERROR(Reserve(pass.num_rows(), pass.num_logit_rows));
  RETURN_IF_ERROR(GrowArray(device_, pass.num_states * (config_.head_dim + 2),
                            scratch_.states));
  ASSIGN_OR_RETURN(on_device_.tokens, requests.Put(pass.tokens));
  ASSIGN_OR_RETURN(on_device_.logit_rows, requests.Put(pass.logit_rows));
  ASSIGN_OR_RETURN(on_device_.rows, requests.Put(pass.rows));
  ASSIGN_OR_RETURN(on_device_.rotated_rows, requests.Put(pass.rotated_rows));
  ASSIGN_OR_RETURN(on_device_.sequences, requests.Put(pass.sequences));
  ASSIGN_OR_RETURN(on_device_.tree_items, requests.Put(pass.tree_items));
  ASSIGN_OR_RETURN(on_device_.chain_items, requests.Put(pass.chain_items));
  if (chains_attend_) RETURN_IF_ERROR(DescribeLayerChains(pass, requests));
  constexpr size_t kMinPages = 256;
  const size_t most_pages =
      std::bit_ceil(std::max(kMinPages, pass.page_tables[0].size()));
  std::vector<int32_t> tables;
  for (const std::vector<int32_t>& table : pass.page_tables) {
    tables.insert(tables.end(), table.begin(), table.end());
    tables.resize(tables.size() + most_pages - table.size());
  }
  ASSIGN_OR_RETURN(on_device_.page_tables, requests.Put(tables));
  on_device_.page_table_size = static_cast<int64_t>(most_pages);
  for (const auto& [window, items] : pass.prefix_items) {
    ASSIGN_OR_RETURN(on_device_.prefix_items[window], requests.Put(items));
  }
  ASSIGN_OR_RETURN(on_device_.paths, requests.Put(pass.paths));
  return absl::OkStatus();
}

absl::Status CudaDecoder::DescribeLayerChains(const CudaPass& pass,
                                              Mailbox& requests) {
  const CudaPass::LayerItems items = pass.DivideForLayerChain();
  ASSIGN_OR_RETURN(on_device_.layer_prefix_items, requests.Put(items.prefix));
  ASSIGN_OR_RETURN(on_device_.layer_tree_items, requests.Put(items.tree));
  on_device_.num_layer_prefix_items = static_cast<int>(items.prefix.size());
  on_device_.num_layer_tree_items = static_cast<int>(items.tree.size());
  return absl::OkStatus();
}

void CudaDecoder::Launch(const CudaPass& pass, const Target& target) {
  LaunchLayers(pass, target);
  Head(pass, target);
}

void CudaDecoder::LaunchLayers(const CudaPass& pass, const Target& target) {
  Embed(pass, target);
  queue_.Launch(InputNorm(0, pass, target));
  queue_.Launch(InputProduct(0, scratch_.normed.data(), pass.num_rows()));
  for (int64_t i = 0; i < config_.num_layers; ++i) {
    RunLayer(i, pass, target, /*has_next=*/i + 1 < config_.num_layers);
  }
}

cuda::TakeRowsArgs CudaDecoder::StreamAfter(int64_t index,
                                            const CudaPass& pass) {
  cuda::ResidualNormArgs norm = Norm(pass, weights_.final_norm);
  AddOutput(index, pass.num_rows(), norm);
  if (norm.added_weight != nullptr) {
    norm.out = nullptr;
    queue_.Launch(norm);
    norm.parts = {};
  }
  return {.from = scratch_.x.data(),
          .parts = norm.parts,
          .rows = pass.num_rows(),
          .columns = static_cast<int>(config_.hidden_size)};
}

void CudaDecoder::AddOutput(int64_t index, int rows,
                            cuda::ResidualNormArgs& norm) const {
  const CudaLayer& layer = weights_.layers[index];
  const LayerShape& shape = config_.layers[index];
  norm.parts = shape.is_dense() ? PartsOf(layer.down, rows)
                                : mixture_.output(shape, rows);
  norm.added_weight = layer.ffn_out_norm.data();
}

cuda::bf16_t* CudaDecoder::TapAt(int32_t point, const CudaPass& pass,
                                 const Target& target) const {
  const auto found = std::find(target.taps.begin(), target.taps.end(), point);
  if (found == target.taps.end()) return nullptr;
  return target.states +
         (found - target.taps.begin()) * pass.num_rows() * config_.hidden_size;
}

void CudaDecoder::Embed(const CudaPass& pass, const Target& target) {
  queue_.Launch(
      cuda::EmbedArgs{.table = weights_.tokens.weights.data(),
                      .tokens = on_device_.tokens,
                      .rows = pass.num_rows(),
                      .hidden = static_cast<int>(config_.hidden_size),
                      .scale = static_cast<float>(config_.embedding_scale),
                      .x = scratch_.x.data(),
                      .tap = TapAt(0, pass, target)});
}

cuda::ResidualNormArgs CudaDecoder::Norm(
    const CudaPass& pass, const DeviceArray<float>& weight) const {
  return {.x = scratch_.x.data(),
          .rows = pass.num_rows(),
          .hidden = static_cast<int>(config_.hidden_size),
          .weight = weight.data(),
          .epsilon = static_cast<float>(config_.norm_epsilon),
          .out = scratch_.normed.data(),
          .out_block = RowBlock(pass.num_rows())};
}

cuda::Parts CudaDecoder::PartsOf(const CudaLinear& linear, int rows) const {
  return espalier::PartsOf(linear, rows, scratch_.parts.data());
}

cuda::ResidualNormArgs CudaDecoder::InputNorm(int64_t index,
                                              const CudaPass& pass,
                                              const Target& target) const {
  cuda::ResidualNormArgs norm =
      Norm(pass, weights_.layers[index].attention_norm);
  if (index > 0) {
    AddOutput(index - 1, pass.num_rows(), norm);
    norm.tap = TapAt(static_cast<int32_t>(index), pass, target);
  }
  return norm;
}

cuda::ProductArgs CudaDecoder::InputProduct(int64_t index,
                                            const unsigned char* input,
                                            int rows) const {
  return ProductOf(weights_.layers[index].qkv, input, rows,
                   scratch_.parts.data());
}

cuda::KvPages CudaDecoder::PagesOf(int64_t layer, const Target& target) const {
  const auto dim = static_cast<uint32_t>(config_.head_dim);
  const auto kv_heads = static_cast<uint32_t>(config_.num_kv_heads);
  const auto layers = static_cast<uint32_t>(kv_layers_.per_group);
  const KvLayers::Place& place = kv_layers_.places[layer];
  return {.pages = target.pages +
                   cuda::PanelOffset(dim, kv_heads,
                                     static_cast<uint32_t>(place.layer), 0, 0),
          .page_bytes = static_cast<int64_t>(
              cuda::PanelOffset(dim, kv_heads, layers, 0, 0)),
          .page_table = on_device_.page_tables +
                        place.group * on_device_.page_table_size};
}

cuda::PrepareArgs CudaDecoder::Preparation(int64_t index, int rows,
                                           const cuda::KvPages& kv) const {
  const CudaLayer& layer = weights_.layers[index];
  return {.parts = PartsOf(layer.qkv, rows),
          .query_norm = layer.q_norm.data(),
          .key_norm = layer.k_norm.data(),
          .epsilon = static_cast<float>(config_.norm_epsilon),
          .angles = angles_[config_.layers[index].rotary].data(),
          .rows = on_device_.rotated_rows,
          .sequences = on_device_.sequences,
          .num_rows = rows,
          .heads = static_cast<int>(config_.num_heads),
          .kv_heads = static_cast<int>(config_.num_kv_heads),
          .head_dim = static_cast<int>(config_.head_dim),
          .kv = kv,
          .queries = scratch_.queries.data()};
}

void CudaDecoder::CacheRows(const CudaKvProduct& kv, const unsigned char* input,
                            float* parts, const CudaPass& pass,
                            const Target& target) {
  const int rows = pass.num_rows();
  queue_.Launch(ProductOf(kv.product, input, rows, parts));
  cuda::PrepareArgs prepare = Preparation(0, rows, PagesOf(0, target));
  prepare.parts = espalier::PartsOf(kv.product, rows, parts);
  prepare.layers = static_cast<int>(config_.num_layers);
  prepare.key_norm = kv.key_norms.data();
  prepare.heads = 0;
  queue_.Launch(prepare);
}

void CudaDecoder::LaunchLayer(int64_t index, const unsigned char* input,
                              const CudaPass& pass, const Target& target) {
  queue_.Launch(InputProduct(index, input, pass.num_rows()));
  RunLayer(index, pass, target, /*has_next=*/false);
}

void CudaDecoder::RunLayer(int64_t index, const CudaPass& pass,
                           const Target& target, bool has_next) {
  const cuda::KvPages kv = PagesOf(index, target);
  const cuda::PrepareArgs prepare = Preparation(index, pass.num_rows(), kv);
  const cuda::AttendArgs attend = Attention(index, pass, kv);
  if (config_.layers[index].is_dense()) {
    LaunchLayerChain({.prepare = prepare,
                      .attend = attend,
                      .prefix_items = on_device_.layer_prefix_items,
                      .tree_items = on_device_.layer_tree_items,
                      .num_prefix_items = on_device_.num_layer_prefix_items,
                      .num_tree_items = on_device_.num_layer_tree_items,
                      .chain = FeedForward(index, pass, target, has_next)});
    return;
  }
  queue_.Launch(prepare);
  queue_.Launch(attend);
  FeedExperts(index, pass);
  if (!has_next) return;
  queue_.Launch(InputNorm(index + 1, pass, target));
  queue_.Launch(
      InputProduct(index + 1, scratch_.normed.data(), pass.num_rows()));
}

cuda::ResidualNormArgs CudaDecoder::AttentionOutNorm(
    int64_t index, const CudaPass& pass) const {
  const CudaLayer& layer = weights_.layers[index];
  cuda::ResidualNormArgs norm = Norm(pass, layer.ffn_norm);
  norm.parts = PartsOf(layer.out, pass.num_rows());
  norm.added_weight = layer.attention_out_norm.data();
  return norm;
}

void CudaDecoder::FeedExperts(int64_t index, const CudaPass& pass) {
  const CudaLayer& layer = weights_.layers[index];
  const int rows = pass.num_rows();
  queue_.Launch(ProductOf(layer.out, scratch_.attended.data(), rows,
                          scratch_.parts.data()));
  cuda::ResidualNormArgs norm = AttentionOutNorm(index, pass);
  norm.normed = mixture_.router_input();
  queue_.Launch(norm);
  mixture_.Launch(config_.layers[index], layer.experts, scratch_.normed.data(),
                  rows);
}

cuda::ChainArgs CudaDecoder::FeedForward(int64_t index, const CudaPass& pass,
                                         const Target& target,
                                         bool has_next) const {
  const CudaLayer& layer = weights_.layers[index];
  const int rows = pass.num_rows();
  float* const parts = scratch_.parts.data();
  cuda::ChainArgs chain = {.num_steps = has_next ? 6 : 4};
  chain.products[0] =
      ProductOf(layer.out, scratch_.attended.data(), rows, parts);
  chain.norms[0] = AttentionOutNorm(index, pass);
  cuda::ProductArgs& gate_up = chain.products[1];
  gate_up =
      ProductOf(layer.gate_up, scratch_.normed.data(), rows, /*parts=*/nullptr);
  gate_up.gated = scratch_.gated.data();
  gate_up.gate = GateOf(config_.layers[index]);
  chain.products[2] = ProductOf(layer.down, scratch_.gated.data(), rows, parts);
  if (has_next) {
    chain.norms[1] = InputNorm(index + 1, pass, target);
    chain.products[3] = InputProduct(index + 1, scratch_.normed.data(), rows);
  }
  return chain;
}

void CudaDecoder::LaunchLayerChain(cuda::LayerChainArgs layer) {
  if (!chains_attend_ || !cuda::LayerChainFits(layer, resident_blocks_)) {
    queue_.Launch(layer.prepare);
    queue_.Launch(layer.attend);
    LaunchChain(layer.chain);
    return;
  }
  layer.chain.blocks = cuda::ChainBlocks(layer.chain, resident_blocks_);
  layer.chain.counters = scratch_.chain_counters.data();
  queue_.Launch(layer);
}

void CudaDecoder::LaunchChain(cuda::ChainArgs chain) {
  if (!cuda::ChainFits(chain, resident_blocks_)) {
    cuda::ForEachOfChain(chain,
                         [this](const auto& kernel) { queue_.Launch(kernel); });
    return;
  }
  chain.blocks = cuda::ChainBlocks(chain, resident_blocks_);
  chain.counters = scratch_.chain_counters.data();
  queue_.Launch(chain);
}

cuda::AttendArgs CudaDecoder::Attention(int64_t index, const CudaPass& pass,
                                        const cuda::KvPages& kv) const {
  const LayerShape& shape = config_.layers[index];
  const double scalar = shape.query_scalar > 0
                            ? shape.query_scalar
                            : static_cast<double>(config_.head_dim);
  return {.queries = scratch_.queries.data(),
          .kv = kv,
          .rows = on_device_.rows,
          .sequences = on_device_.sequences,
          .paths = on_device_.paths,
          .prefix_items = on_device_.prefix_items.at(shape.window),
          .tree_items = on_device_.tree_items,
          .chain_items = on_device_.chain_items,
          .num_prefix_items =
              static_cast<int>(pass.prefix_items.at(shape.window).size()),
          .num_tree_items = static_cast<int>(pass.tree_items.size()),
          .num_chain_items = static_cast<int>(pass.chain_items.size()),
          .tree_pages = pass.tree_pages,
          .kv_heads = static_cast<int>(config_.num_kv_heads),
          .group = static_cast<int>(config_.num_heads / config_.num_kv_heads),
          .head_dim = static_cast<int>(config_.head_dim),
          .scale = cuda::AttendScale(scalar),
          .window = static_cast<int>(shape.window),
          .states = scratch_.states.data(),
          .out = scratch_.attended.data(),
          .out_block = RowBlock(pass.num_rows())};
}

void CudaDecoder::Head(const CudaPass& pass, const Target& target) {
  const int rows = pass.num_rows();
  const auto layers = static_cast<int32_t>(config_.num_layers);
  cuda::ResidualNormArgs norm = Norm(pass, weights_.final_norm);
  AddOutput(config_.num_layers - 1, rows, norm);
  norm.out_rows = on_device_.logit_rows;
  norm.out = scratch_.logit_rows.data();
  norm.out_block = RowBlock(pass.num_logit_rows);
  norm.tap = TapAt(layers, pass, target);
  norm.normed_tap = TapAt(NormedTap(layers), pass, target);
  queue_.Launch(norm);
  if (pass.num_logit_rows == 0) return;
  logits_.Launch(scratch_.logit_rows.data(), pass.num_logit_rows,
                 target.logits);
}

}  // namespace espalier
