#include "common/model/native/native_layers.h"

#include <algorithm>

namespace espalier {
namespace {

// Enough for a thread that has ended to help another one, few enough that
// claiming them costs nothing.
constexpr int64_t kChunksPerThread = 4;
constexpr int64_t kRowsPerChunk = 8;  // few rows are not worth a wake-up

}  // namespace

NativeLayers::NativeLayers(const ModelConfig& config,
                           const std::vector<double>& frequencies,
                           const Runtime& runtime)
    : config_(config),
      runtime_(runtime),
      attention_(config, frequencies, runtime.kv_type, runtime.kernels,
                 runtime.pool),
      chunks_(runtime.kernels, runtime.pool) {}

void NativeLayers::Begin(const NativePass& pass) {
  rows_ = pass.rows();
  const int64_t q_size = config_.num_heads * config_.head_dim;
  const int64_t kv_size = config_.num_kv_heads * config_.head_dim;
  qkv_.resize(rows_ * (q_size + 2 * kv_size));
  attended_.resize(rows_ * q_size);
  ffn_.resize(rows_ * config_.ffn_size);
  attention_.Begin(pass, attended_.data());
}

void NativeLayers::Run(int64_t index, const NativeLayer& layer,
                       const Input& input, nn::Activation activation,
                       float* x) {
  Multiply({.linear = layer.qkv,
            .input = input,
            .rows = rows_,
            .out = qkv_.data(),
            .sensitive = true});
  attention_.Run(index, layer, qkv_.data());
  Multiply({.linear = layer.attention_out,
            .input = {attended_.data()},
            .rows = rows_,
            .out = x,
            .accumulate = true});
  Multiply({.linear = layer.up,
            .input = {x, &layer.ffn_norm},
            .rows = rows_,
            .out = ffn_.data(),
            .activation = activation});
  Multiply({.linear = layer.down,
            .input = {ffn_.data()},
            .rows = rows_,
            .out = x,
            .accumulate = true});
}

void NativeLayers::FillCaches(int64_t index, const NativeLayer& layer,
                              const float* input) {
  // Whole panels, so the last queries may come along.
  const int64_t q_size = config_.num_heads * config_.head_dim;
  Multiply({.linear = layer.qkv,
            .input = {input},
            .rows = rows_,
            .out = qkv_.data(),
            .first_panel = q_size / nn::kPanelOutputs,
            .sensitive = true});
  attention_.FillCaches(index, layer, qkv_.data());
}

void NativeLayers::Normalize(const NativeNorm& norm, int64_t rows,
                             const float* x, float* out) {
  const int64_t size = static_cast<int64_t>(norm.weight.size());
  runtime_.pool.ParallelFor(
      rows, kRowsPerChunk, [&](const nn::ThreadPool::Chunk& chunk) {
        for (int64_t row = chunk.begin; row < chunk.end; ++row) {
          NormalizeRow(norm, x + row * size, out + row * size);
        }
      });
}

void NativeLayers::NormalizeRow(const NativeNorm& norm, const float* x,
                                float* out) const {
  runtime_.kernels.normalize(
      {.x = x,
       .size = static_cast<int64_t>(norm.weight.size()),
       .weight = norm.weight.data(),
       .bias = norm.bias.empty() ? nullptr : norm.bias.data(),
       .epsilon = static_cast<float>(config_.norm_epsilon),
       .out = out});
}

nn::OperandType NativeLayers::OperandOf(const Product& product) const {
  switch (product.linear.matrix.view().type) {
    case nn::WeightType::kFloat32:
      return nn::OperandType::kFloat32;
    case nn::WeightType::kBf16:
      return runtime_.operand;
    case nn::WeightType::kBlocks:
      break;
  }
  return product.sensitive || product.linear.matrix.rounded()
             ? nn::OperandType::kFineBlocks
             : nn::OperandType::kBlocks;
}

NativeLayers::Operands NativeLayers::Prepare(const Product& product) {
  const nn::PanelView& weights = product.linear.matrix.view();
  const int64_t inputs = weights.inputs;
  const NativeNorm* const norm = product.input.norm;
  const nn::OperandType type = OperandOf(product);
  const bool as_it_is = type == nn::OperandType::kFloat32;
  if (as_it_is && norm == nullptr) {
    return {.rows = product.input.x, .stride = inputs * 4};
  }
  // One line more than a row needs: a stride of whole pages would crowd the
  // rows of a tile into few sets of the cache.
  constexpr int64_t kLine = sizeof(CacheLine);
  const int64_t lines = nn::OperandBytes(type, inputs) / kLine + 1;
  if (!as_it_is && std::ssize(operands_) < lines * product.rows) {
    operands_.resize(lines * product.rows);
  }
  if (norm != nullptr && std::ssize(normed_) < inputs * product.rows) {
    normed_.resize(inputs * product.rows);
  }
  runtime_.pool.ParallelFor(
      product.rows, kRowsPerChunk, [&](const nn::ThreadPool::Chunk& chunk) {
        for (int64_t i = chunk.begin; i < chunk.end; ++i) {
          const float* x = product.input.x + i * inputs;
          if (norm != nullptr) {
            float* const normed = &normed_[i * inputs];
            NormalizeRow(*norm, x, normed);
            x = normed;
          }
          if (as_it_is) continue;
          runtime_.kernels.prepare({.type = type,
                                    .x = x,
                                    .inputs = inputs,
                                    .out = &operands_[i * lines]});
        }
      });
  if (as_it_is) return {.rows = normed_.data(), .stride = inputs * 4};
  return {.type = type, .rows = operands_.data(), .stride = lines * kLine};
}

nn::LinearArgs NativeLayers::ArgsOf(const Product& product) {
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

void NativeLayers::Multiply(const Product& product) {
  const int64_t panels = product.linear.matrix.panels() - product.first_panel;
  const nn::LinearArgs args = ArgsOf(product);
  const int64_t chunks = kChunksPerThread * threads();
  const int64_t grain = (panels + chunks - 1) / chunks;
  runtime_.pool.ParallelFor(
      panels, grain, [&](const nn::ThreadPool::Chunk& chunk) {
        nn::LinearArgs part = args;
        part.panel_begin = product.first_panel + chunk.begin;
        part.panel_end = product.first_panel + chunk.end;
        runtime_.kernels.linear(part);
      });
}

void NativeLayers::Stream(const Product& product,
                          nn::ProductChunks::Consumer consume) {
  Product fine = product;
  fine.sensitive = true;
  chunks_.Run(ArgsOf(fine), consume);
}

void NativeLayers::Stream(const Product& product,
                          absl::Span<const int64_t> chunks,
                          nn::ProductChunks::Consumer consume) {
  Product fine = product;
  fine.sensitive = true;
  chunks_.Run(ArgsOf(fine), chunks, consume);
}

}  // namespace espalier
