#include "drafter/dflash/dflash_model.h"

#include <algorithm>
#include <utility>

#include "common/base/bf16.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace espalier::drafter {
namespace {

constexpr int64_t kContextBytes = int64_t{1} << 30;  // of all sequences

int64_t PoolTokens(const KvPageShape& shape) {
  const int64_t block_bytes = shape.page_bytes() * shape.layers.groups.count();
  return kContextBytes / block_bytes * nn::kPageTokens;
}

// Appends a sequence's rows, at consecutive positions.
void AddRows(RowTree tree, int64_t first_position, PagedKvCache& kv,
             NativePass& pass) {
  const int64_t rows = tree.rows();
  pass.sequences.push_back(
      {.first_row = pass.rows(), .tree = std::move(tree), .cache = &kv});
  for (int64_t i = 0; i < rows; ++i) {
    pass.tokens.push_back(0);  // rows() counts them
    pass.positions.push_back(first_position + i);
  }
}

}  // namespace

DflashModel::DflashModel(const DflashConfig& config,
                         std::unique_ptr<const DflashWeights> weights,
                         HeadRuntime runtime)
    : PagedBlockModel(
          config,
          std::make_unique<KvPageStore>(
              KvPageShape::Of(config.layers), *runtime.kernels,
              runtime.Room(KvPageShape::Of(config.layers),
                           PoolTokens(KvPageShape::Of(config.layers)))),
          runtime.prefix_cache_bytes > 0),
      weights_(std::move(weights)),
      runtime_(std::move(runtime)),
      layers_(this->config().layers, runtime_.layers()),
      head_(weights_->vocabulary, weights_->output_rows),
      features_(config.features()) {}

// Keys and values of all layers come from the same rows.
absl::Status DflashModel::ExtendBy(absl::Span<const Piece> pieces) {
  const NativePass pass = ContextPass(pieces);
  const int64_t rows = pass.rows();
  x_.resize(rows * config().layers.hidden_size);
  normed_.resize(x_.size());
  layers_.Multiply({.linear = weights_->fc,
                    .input = {inputs_.data()},
                    .rows = rows,
                    .out = x_.data()});
  layers_.Normalize(weights_->context_norm, rows, x_.data(), normed_.data());
  layers_.Begin(pass);
  for (int64_t i = 0; i < config().layers.num_layers; ++i) {
    layers_.FillCaches(i, weights_->layers[i], normed_.data());
  }
  return absl::OkStatus();
}

NativePass DflashModel::ContextPass(absl::Span<const Piece> pieces) {
  NativePass pass;
  inputs_.clear();
  for (const Piece& piece : pieces) {
    PagedKvCache& kv = Get(piece.rows->context).kv;
    AddRows(ContextRows(kv.length(), piece.count), piece.first, kv, pass);
    for (uint16_t bits : features_.Rows(
             piece.rows->id, {piece.first, piece.first + piece.count})) {
      inputs_.push_back(Bf16ToFloat(bits));
    }
  }
  return pass;
}

NativePass DflashModel::BlockPass(absl::Span<const Block> blocks) {
  NativePass pass;
  const int64_t size = config().block_size;
  const int64_t hidden = config().layers.hidden_size;
  x_.resize(static_cast<int64_t>(blocks.size()) * size * hidden);
  float* x = x_.data();
  for (const Block& block : blocks) {
    PagedKvCache& kv = Get(block.context).kv;
    AddRows(BlockRows(kv.length(), size, config().causal), block.root_position,
            kv, pass);
    for (int64_t i = 0; i < size; ++i, x += hidden) {
      weights_->embeddings.Row(i == 0 ? block.root : config().mask_token, x);
    }
  }
  return pass;
}

void DflashModel::RunLayers(const NativePass& pass) {
  layers_.Begin(pass);
  for (int64_t i = 0; i < config().layers.num_layers; ++i) {
    const NativeLayer& layer = weights_->layers[i];
    layers_.Run(i, layer, {x_.data(), &layer.attention_norm}, x_.data());
  }
}

// The block's own keys and values stay after the prefix, where the next rows
// overwrite them.
absl::StatusOr<std::vector<std::vector<std::vector<Candidate>>>>
DflashModel::Predict(absl::Span<const Block> blocks, int64_t width) {
  RunLayers(BlockPass(blocks));

  // Moves the wanted rows to the front.
  const int64_t hidden = config().layers.hidden_size;
  std::vector<CandidateHead::Query> queries;
  for (size_t b = 0; b < blocks.size(); ++b) {
    const Block& block = blocks[b];
    ESPALIER_CHECK(std::ssize(block.wanted) < config().block_size);
    int64_t row = static_cast<int64_t>(b) * config().block_size;
    int64_t position = block.root_position;
    for (const SamplingParams& sampling : block.wanted) {
      std::copy_n(&x_[++row * hidden], hidden, &x_[queries.size() * hidden]);
      queries.push_back({.sampling = sampling, .position = ++position});
    }
  }
  normed_.resize(queries.size() * hidden);
  layers_.Normalize(weights_->final_norm, std::ssize(queries), x_.data(),
                    normed_.data());
  ASSIGN_OR_RETURN(std::vector<std::vector<Candidate>> ranked,
                   head_.Rank(layers_, normed_.data(), queries, width));

  std::vector<std::vector<std::vector<Candidate>>> marginals;
  auto next = std::make_move_iterator(ranked.begin());
  for (const Block& block : blocks) {
    marginals.emplace_back(next, next + std::ssize(block.wanted));
    next += std::ssize(block.wanted);
  }
  return marginals;
}

}  // namespace espalier::drafter
