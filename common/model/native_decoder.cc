#include "common/model/native_decoder.h"

#include <algorithm>
#include <utility>

#include "common/spec/features.h"

namespace espalier {
namespace {

// Enough for the threads to share the work evenly, few enough that claiming
// them costs nothing.
constexpr int64_t kChunksPerThread = 8;
constexpr int64_t kRowsPerChunk = 8;  // few rows are not worth a wake-up
constexpr int64_t kOperandsPerChunk = 32;

}  // namespace

NativeDecoder::NativeDecoder(Parts parts)
    : config_(std::move(parts.config)),
      weights_(std::move(parts.weights)),
      kernels_(*parts.kernels),
      operand_(parts.operand),
      pool_(std::move(parts.pool)),
      attention_(config_, weights_->frequencies, kernels_, *pool_),
      head_chunks_(kernels_, *pool_),
      scratch_(pool_->threads()) {}

void NativeDecoder::Run(const NativePass& pass) {
  const nn::ThreadPool::CallerPin pin(*pool_);
  rows_ = pass.rows();
  const int64_t q_size = config_.num_heads * config_.head_dim;
  const int64_t kv_size = config_.num_kv_heads * config_.head_dim;
  x_.resize(rows_ * config_.hidden_size);
  normed_.resize(rows_ * config_.hidden_size);
  qkv_.resize(rows_ * (q_size + 2 * kv_size));
  attended_.resize(rows_ * q_size);
  ffn_.resize(rows_ * config_.ffn_size);

  Embed(pass);
  Tap(pass, 0, x_.data());
  attention_.Begin(pass, attended_.data());
  for (int64_t i = 0; i < config_.num_layers; ++i) {
    Attention(weights_->layers[i], i);
    FeedForward(weights_->layers[i]);
    Tap(pass, i + 1, x_.data());
  }
  TapNormed(pass);
  if (pass.num_logit_rows() > 0) Head(pass);
}

void NativeDecoder::Embed(const NativePass& pass) {
  const int64_t hidden = config_.hidden_size;
  for (int64_t row = 0; row < rows_; ++row) {
    float* const x = &x_[row * hidden];
    weights_->tokens.Row(pass.tokens[row], x);
    if (!weights_->positions.has_value()) continue;
    float* const position =
        &normed_[row * hidden];  // free until the first norm
    weights_->positions->Row(pass.positions[row], position);
    for (int64_t i = 0; i < hidden; ++i) x[i] += position[i];
  }
}

void NativeDecoder::Attention(const NativeLayer& layer, int64_t index) {
  Normalize(layer.attention_norm, rows_, x_.data());
  Multiply(
      {.linear = layer.qkv, .x = normed_, .rows = rows_, .out = qkv_.data()});
  attention_.Run(index, layer, qkv_.data());
  Multiply({.linear = layer.attention_out,
            .x = attended_,
            .rows = rows_,
            .out = x_.data(),
            .accumulate = true});
}

void NativeDecoder::FeedForward(const NativeLayer& layer) {
  Normalize(layer.ffn_norm, rows_, x_.data());
  Multiply({.linear = layer.up,
            .x = normed_,
            .rows = rows_,
            .out = ffn_.data(),
            .activation = weights_->activation});
  Multiply({.linear = layer.down,
            .x = ffn_,
            .rows = rows_,
            .out = x_.data(),
            .accumulate = true});
}

// x: [rows, hidden]
void NativeDecoder::Tap(const NativePass& pass, int64_t point,
                        const float* x) const {
  const int64_t hidden = config_.hidden_size;
  for (const NativePass::Sequence& part : pass.sequences) {
    const auto tap = std::find(part.taps.begin(), part.taps.end(), point);
    if (tap == part.taps.end()) continue;
    const int64_t width = static_cast<int64_t>(part.taps.size()) * hidden;
    float* out = part.features.data() + (tap - part.taps.begin()) * hidden;
    for (int64_t row = 0; row < part.tree.rows(); ++row, out += width) {
      std::copy_n(x + (part.first_row + row) * hidden, hidden, out);
    }
  }
}

// Of all rows, while the head norms only those with logits.
void NativeDecoder::TapNormed(const NativePass& pass) {
  const int32_t point = NormedTap(config_.num_layers);
  if (std::none_of(pass.sequences.begin(), pass.sequences.end(),
                   [point](const NativePass::Sequence& part) {
                     return !part.taps.empty() && part.taps.back() == point;
                   })) {
    return;
  }
  Normalize(weights_->final_norm, rows_, x_.data());
  Tap(pass, point, normed_.data());
}

void NativeDecoder::Head(const NativePass& pass) {
  const int64_t hidden = config_.hidden_size;
  // Ascending, so rows move to the front without overwriting each other.
  for (int64_t i = 0; i < pass.num_logit_rows(); ++i) {
    if (pass.logit_rows[i] == i) continue;
    std::copy_n(&x_[pass.logit_rows[i] * hidden], hidden, &x_[i * hidden]);
  }
  Normalize(weights_->final_norm, pass.num_logit_rows(), x_.data());
  const nn::LinearArgs product = ArgsOf(
      {.linear = weights_->head, .x = normed_, .rows = pass.num_logit_rows()});
  head_chunks_.Run(product, [&pass](const nn::ProductChunk& chunk) {
    nn::ProductChunk part = chunk;
    for (const NativePass::Sequence& sequence : pass.sequences) {
      if (sequence.num_logit_rows == 0) continue;
      sequence.logits->Take(part);
      part.rows += sequence.num_logit_rows * part.stride;
    }
  });
}

void NativeDecoder::Normalize(const NativeNorm& norm, int64_t rows,
                              const float* x) {
  const int64_t hidden = config_.hidden_size;
  pool_->ParallelFor(
      rows, kRowsPerChunk, [&](const nn::ThreadPool::Chunk& chunk) {
        for (int64_t row = chunk.begin; row < chunk.end; ++row) {
          kernels_.normalize(
              {.x = x + row * hidden,
               .size = hidden,
               .weight = norm.weight.data(),
               .bias = norm.bias.empty() ? nullptr : norm.bias.data(),
               .epsilon = static_cast<float>(config_.norm_epsilon),
               .out = &normed_[row * hidden]});
        }
      });
}

NativeDecoder::Operands NativeDecoder::Prepare(const Product& product) {
  const nn::PanelView& weights = product.linear.matrix.view();
  const int64_t inputs = weights.inputs;
  if (weights.type == nn::WeightType::kFloat32 ||
      operand_ == nn::OperandType::kFloat32) {
    return {.rows = product.x.data(), .stride = inputs * 4};
  }
  // One line more than a row needs: a stride of whole pages would crowd the
  // rows of a tile into few sets of the cache.
  constexpr int64_t kLine = sizeof(CacheLine);
  const int64_t lines = nn::OperandBytes(operand_, inputs) / kLine + 1;
  if (static_cast<int64_t>(operands_.size()) < lines * product.rows) {
    operands_.resize(lines * product.rows);
  }
  pool_->ParallelFor(product.rows, kOperandsPerChunk,
                     [&](const nn::ThreadPool::Chunk& chunk) {
                       for (int64_t i = chunk.begin; i < chunk.end; ++i) {
                         kernels_.prepare({.type = operand_,
                                           .x = &product.x[i * inputs],
                                           .inputs = inputs,
                                           .out = &operands_[i * lines]});
                       }
                     });
  return {.type = operand_, .rows = operands_.data(), .stride = lines * kLine};
}

nn::LinearArgs NativeDecoder::ArgsOf(const Product& product) {
  const nn::PackedMatrix& matrix = product.linear.matrix;
  const std::vector<float>& bias = product.linear.bias;
  const Operands operands = Prepare(product);
  return {.weights = matrix.view(),
          .bias = bias.empty() ? nullptr : bias.data(),
          .rows = product.rows,
          .operand = operands.type,
          .x = operands.rows,
          .x_stride = operands.stride,
          .out = product.out,
          .out_stride = matrix.out_columns(),
          .out_columns = matrix.out_columns(),
          .activation = product.activation,
          .gated = matrix.gated(),
          .accumulate = product.accumulate};
}

void NativeDecoder::Multiply(const Product& product) {
  const int64_t panels = product.linear.matrix.panels();
  const nn::LinearArgs args = ArgsOf(product);
  const int64_t grain =
      std::max<int64_t>(1, panels / (kChunksPerThread * pool_->threads()));
  pool_->ParallelFor(panels, grain, [&](const nn::ThreadPool::Chunk& chunk) {
    nn::LinearArgs part = args;
    part.panel_begin = chunk.begin;
    part.panel_end = chunk.end;
    std::vector<float>& scratch = scratch_[chunk.thread];
    scratch.resize(
        std::max<size_t>(scratch.size(), nn::LinearScratch(part.weights)));
    part.scratch = scratch.data();
    kernels_.linear(part);
  });
}

}  // namespace espalier
