#include "common/model/native/native_layers.h"

#include <algorithm>

namespace espalier {
namespace {

// Enough for a thread that has ended to help another one, few enough that
// claiming them costs nothing.
constexpr int64_t kChunksPerThread = 4;
constexpr int64_t kRowsToAdd = 8;  // fewer are not worth a wake-up

int64_t WidestDense(const ModelConfig& config) {
  int64_t widest = 0;
  for (const LayerShape& layer : config.layers) {
    if (layer.is_dense()) widest = std::max(widest, layer.ffn_size);
  }
  return widest;
}

// Panels whose columns are a block of the product that reads them.
int64_t PanelsOfBlock(const nn::PackedMatrix& matrix) {
  static_assert(nn::kPanelOutputs == nn::kBlockInputs);
  return matrix.gated() ? 2 : 1;
}

}  // namespace

NativeLayers::NativeLayers(const ModelConfig& config, const Runtime& runtime)
    : config_(config),
      runtime_(runtime),
      attention_(config, runtime.kv_type, runtime.kernels, runtime.pool),
      operands_(runtime, static_cast<float>(config.norm_epsilon)),
      mixture_(runtime, operands_),
      chunks_(runtime.kernels, runtime.pool),
      widest_(WidestDense(config)) {}

void NativeLayers::Begin(const NativePass& pass) {
  rows_ = pass.rows();
  const int64_t q_size = config_.num_heads * config_.head_dim;
  const int64_t kv_size = config_.num_kv_heads * config_.head_dim;
  qkv_.resize(rows_ * (q_size + 2 * kv_size));
  attended_.resize(rows_ * q_size);
  ffn_.resize(rows_ * widest_);
  attention_.Begin(pass, attended_.data());
  mixture_.BeginPass();
}

void NativeLayers::Run(int64_t index, const NativeLayer& layer,
                       const Input& input, float* x) {
  Attend(index, layer, input, x);
  FeedForward(index, layer, x);
}

void NativeLayers::Attend(int64_t index, const NativeLayer& layer,
                          const Input& input, float* x) {
  Multiply({.linear = layer.qkv,
            .input = input,
            .rows = rows_,
            .out = qkv_.data(),
            .sensitive = true});
  if (config_.layers[index].head_norm == HeadNorm::kAllHeads) {
    NormalizeAllHeads(layer);
  }
  const int64_t head_dim = config_.head_dim;
  const RowOperands::Rows next = head_dim % nn::kBlockInputs == 0
                                     ? ReserveFor(layer.attention_out)
                                     : RowOperands::Rows();
  attention_.Run(index, layer, qkv_.data(),
                 [&](int64_t row, int64_t first_head, int64_t heads) {
                   if (next.rows == nullptr) return;
                   const int64_t begin = first_head * head_dim;
                   operands_.PreparePart(
                       next, row, begin, heads * head_dim,
                       &attended_[row * config_.num_heads * head_dim + begin]);
                 });
  AddProduct(layer.attention_out, {.x = attended_.data(), .operand = next},
             layer.attention_out_norm, x);
}

void NativeLayers::FeedForward(int64_t index, const NativeLayer& layer,
                               float* x) {
  const LayerShape& shape = config_.layers[index];
  if (shape.is_dense()) {
    const RowOperands::Rows next = ReserveFor(layer.mlp.down);
    Multiply({.linear = layer.mlp.up,
              .input = {x, &layer.ffn_norm},
              .rows = rows_,
              .out = ffn_.data(),
              .activation = layer.activation,
              .next = next});
    AddProduct(layer.mlp.down, {.x = ffn_.data(), .operand = next},
               layer.ffn_out_norm, x);
    return;
  }
  added_.resize(rows_ * config_.hidden_size);
  mixture_.Run(shape.experts, layer, x, rows_, added_.data());
  AddNormed(layer.ffn_out_norm, added_.data(), x);
}

RowOperands::Rows NativeLayers::ReserveFor(const NativeLinear& linear) {
  return operands_.Reserve(
      operands_.TypeFor(linear.matrix, /*sensitive=*/false), rows_,
      linear.matrix.inputs());
}

void NativeLayers::AddProduct(const NativeLinear& linear, const Input& input,
                              const NativeNorm& norm, float* x) {
  if (!norm.is_there()) {
    Multiply({.linear = linear,
              .input = input,
              .rows = rows_,
              .out = x,
              .accumulate = true});
    return;
  }
  added_.resize(rows_ * config_.hidden_size);
  Multiply(
      {.linear = linear, .input = input, .rows = rows_, .out = added_.data()});
  AddNormed(norm, added_.data(), x);
}

void NativeLayers::AddNormed(const NativeNorm& norm, float* y, float* x) {
  const int64_t hidden = config_.hidden_size;
  runtime_.pool.ParallelFor(
      rows_, kRowsToAdd, [&](const nn::ThreadPool::Chunk& chunk) {
        for (int64_t row = chunk.begin; row < chunk.end; ++row) {
          float* const from = y + row * hidden;
          float* const to = x + row * hidden;
          if (norm.is_there()) operands_.NormalizeRow(norm, from, from);
          for (int64_t i = 0; i < hidden; ++i) to[i] += from[i];
        }
      });
}

void NativeLayers::NormalizeAllHeads(const NativeLayer& layer) {
  const int64_t q_size = config_.num_heads * config_.head_dim;
  const int64_t row_size = q_size + 2 * config_.num_kv_heads * config_.head_dim;
  for (int64_t row = 0; row < rows_; ++row) {
    float* const queries = &qkv_[row * row_size];
    operands_.NormalizeRow(layer.q_norm, queries, queries);
    operands_.NormalizeRow(layer.k_norm, queries + q_size, queries + q_size);
  }
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
  operands_.Normalize(norm, rows, x, out);
}

nn::LinearArgs NativeLayers::ArgsOf(const Product& product) {
  const nn::PackedMatrix& matrix = product.linear.matrix;
  const std::vector<float>& bias = product.linear.bias;
  const RowOperands::Rows operands =
      operands_.Prepare(operands_.TypeFor(matrix, product.sensitive),
                        product.input, product.rows, matrix.inputs());
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
          .softcap = product.softcap,
          .accumulate = product.accumulate};
}

void NativeLayers::Multiply(const Product& product) {
  const nn::PackedMatrix& matrix = product.linear.matrix;
  const nn::LinearArgs args = ArgsOf(product);
  const int64_t per_block = PanelsOfBlock(matrix);
  const int64_t panels = matrix.panels() - product.first_panel;
  const int64_t blocks = (panels + per_block - 1) / per_block;
  const int64_t chunks = kChunksPerThread * threads();
  const int64_t grain = (blocks + chunks - 1) / chunks;
  runtime_.pool.ParallelFor(
      blocks, grain, [&](const nn::ThreadPool::Chunk& chunk) {
        nn::LinearArgs part = args;
        part.panel_begin = product.first_panel + chunk.begin * per_block;
        part.panel_end = std::min(product.first_panel + chunk.end * per_block,
                                  matrix.panels());
        runtime_.kernels.linear(part);
        if (product.next.rows != nullptr) PrepareNext(product, chunk);
      });
}

void NativeLayers::PrepareNext(const Product& product,
                               const nn::ThreadPool::Chunk& blocks) {
  const int64_t columns = product.linear.matrix.out_columns();
  const int64_t begin = blocks.begin * nn::kBlockInputs;
  const int64_t end = std::min(blocks.end * nn::kBlockInputs, columns);
  for (int64_t row = 0; row < product.rows; ++row) {
    operands_.PreparePart(product.next, row, begin, end - begin,
                          product.out + row * columns + begin);
  }
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
