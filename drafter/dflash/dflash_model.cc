#include "drafter/dflash/dflash_model.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "common/base/bf16.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace espalier::drafter {
namespace {

constexpr int64_t kContextBytes = int64_t{1} << 30;  // of all sequences
constexpr int64_t kMaxPassRows = 256;                // of contexts

int64_t PoolTokens(const KvPageShape& shape) {
  const int64_t page_bytes =
      shape.page_floats() * static_cast<int64_t>(sizeof(float));
  return kContextBytes / page_bytes * nn::kPageTokens;
}

// Rows that later rows attend to, and that attend to nothing.
RowTree ContextRows(int64_t prefix, int64_t rows) {
  RowTree tree;
  tree.prefix = prefix;
  tree.parents.assign(rows, kPrefixParent);
  tree.ancestor_begin.assign(rows + 1, 0);
  return tree;
}

// Rows that attend to the prefix and to each other, or only to those before
// them.
RowTree BlockRows(int64_t prefix, int64_t rows, bool causal) {
  RowTree tree;
  tree.prefix = prefix;
  tree.ancestor_begin.push_back(0);
  for (int64_t row = 0; row < rows; ++row) {
    tree.parents.push_back(row == 0 ? kPrefixParent
                                    : static_cast<int32_t>(row - 1));
    const int64_t seen = causal ? row + 1 : rows;
    for (int64_t i = 0; i < seen; ++i) {
      tree.ancestors.push_back(static_cast<int32_t>(i));
    }
    tree.ancestor_begin.push_back(static_cast<int64_t>(tree.ancestors.size()));
  }
  return tree;
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
    : config_(config),
      weights_(std::move(weights)),
      runtime_(std::move(runtime)),
      layers_(config_.layers, weights_->frequencies, runtime_.layers()),
      head_(weights_->vocabulary, weights_->output_rows),
      features_(config_.features()),
      pages_(KvPageShape::Of(config_.layers), *runtime_.kernels,
             runtime_.Room(KvPageShape::Of(config_.layers),
                           PoolTokens(KvPageShape::Of(config_.layers)))) {}

BlockModel::Context DflashModel::NewContext() {
  contexts_.try_emplace(next_context_, &pages_);
  return next_context_++;
}

void DflashModel::Release(Context context) {
  ESPALIER_CHECK(contexts_.erase(context) == 1);
}

int64_t DflashModel::Length(Context context) const {
  return Get(context).kv.length();
}

void DflashModel::Share(Context context, absl::Span<const TokenId> text,
                        absl::string_view salt) {
  State& state = Get(context);
  if (runtime_.prefix_cache_bytes == 0 ||
      state.kv.length() != state.end_position) {
    return;
  }
  state.kv.Share(text, salt);
  state.end_position = state.kv.length();
}

DflashModel::State& DflashModel::Get(Context context) {
  const auto found = contexts_.find(context);
  ESPALIER_CHECK(found != contexts_.end());
  return found->second;
}

const DflashModel::State& DflashModel::Get(Context context) const {
  return const_cast<DflashModel*>(this)->Get(context);
}

int64_t DflashModel::BeginOf(const NewRows& rows) const {
  return std::max(Get(rows.context).end_position, rows.features.begin);
}

int64_t DflashModel::CountOf(const NewRows& rows) const {
  const int64_t end = std::min(rows.features.end, rows.root_position);
  return std::max<int64_t>(end - BeginOf(rows), 0);
}

absl::Status DflashModel::Reserve(const NewRows& rows) {
  PagedKvCache& kv = Get(rows.context).kv;
  return kv.Reserve(kv.length() + CountOf(rows) + config_.block_size);
}

void DflashModel::Extend(absl::Span<const NewRows> rows) {
  std::vector<Piece> pieces;
  int64_t free = kMaxPassRows;
  for (const NewRows& part : rows) {
    // The piece moves the context's end.
    const int64_t count = CountOf(part);
    for (int64_t done = 0; done < count;) {
      pieces.push_back({.rows = &part,
                        .first = BeginOf(part),
                        .count = std::min(count - done, free)});
      done += pieces.back().count;
      free -= pieces.back().count;
      if (free == 0) {
        ExtendBy(pieces);
        pieces.clear();
        free = kMaxPassRows;
      }
    }
  }
  if (!pieces.empty()) ExtendBy(pieces);
}

// Keys and values of all layers come from the same rows.
void DflashModel::ExtendBy(absl::Span<const Piece> pieces) {
  const NativePass pass = ContextPass(pieces);
  const int64_t rows = pass.rows();
  x_.resize(rows * config_.layers.hidden_size);
  normed_.resize(x_.size());
  layers_.Multiply({.linear = weights_->fc,
                    .input = {inputs_.data()},
                    .rows = rows,
                    .out = x_.data()});
  layers_.Normalize(weights_->context_norm, rows, x_.data(), normed_.data());
  layers_.Begin(pass);
  for (int64_t i = 0; i < config_.layers.num_layers; ++i) {
    layers_.FillCaches(i, weights_->layers[i], normed_.data());
  }
  std::vector<int32_t> kept(kMaxPassRows);
  std::iota(kept.begin(), kept.end(), 0);
  for (const Piece& piece : pieces) {
    State& context = Get(piece.rows->context);
    context.kv.Keep(absl::MakeConstSpan(kept).first(piece.count));
    context.end_position = piece.first + piece.count;
  }
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
  const int64_t size = config_.block_size;
  const int64_t hidden = config_.layers.hidden_size;
  x_.resize(static_cast<int64_t>(blocks.size()) * size * hidden);
  float* x = x_.data();
  for (const Block& block : blocks) {
    PagedKvCache& kv = Get(block.context).kv;
    AddRows(BlockRows(kv.length(), size, config_.causal), block.root_position,
            kv, pass);
    for (int64_t i = 0; i < size; ++i, x += hidden) {
      weights_->embeddings.Row(i == 0 ? block.root : config_.mask_token, x);
    }
  }
  return pass;
}

void DflashModel::RunLayers(const NativePass& pass) {
  layers_.Begin(pass);
  for (int64_t i = 0; i < config_.layers.num_layers; ++i) {
    const NativeLayer& layer = weights_->layers[i];
    layers_.Run(i, layer, {x_.data(), &layer.attention_norm},
                nn::Activation::kSilu, x_.data());
  }
}

// The block's own keys and values stay after the prefix, where the next rows
// overwrite them.
absl::StatusOr<std::vector<std::vector<std::vector<Candidate>>>>
DflashModel::Predict(absl::Span<const Block> blocks, int64_t width) {
  RunLayers(BlockPass(blocks));

  // Moves the wanted rows to the front.
  const int64_t hidden = config_.layers.hidden_size;
  std::vector<CandidateHead::Query> queries;
  for (size_t b = 0; b < blocks.size(); ++b) {
    const Block& block = blocks[b];
    ESPALIER_CHECK(std::ssize(block.wanted) < config_.block_size);
    int64_t row = static_cast<int64_t>(b) * config_.block_size;
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
