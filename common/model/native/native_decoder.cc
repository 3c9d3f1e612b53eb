#include "common/model/native/native_decoder.h"

#include <algorithm>
#include <utility>

#include "common/speculation/features.h"

namespace espalier {

NativeDecoder::NativeDecoder(Parts parts)
    : config_(std::move(parts.config)),
      weights_(std::move(parts.weights)),
      pool_(std::move(parts.pool)),
      layers_(config_, {.kernels = *parts.kernels,
                        .operand = parts.operand,
                        .pool = *pool_,
                        .kv_type = parts.kv_type}) {}

void NativeDecoder::Run(const NativePass& pass) {
  const nn::ThreadPool::CallerPin pin(*pool_);
  rows_ = pass.rows();
  x_.resize(rows_ * config_.hidden_size);
  normed_.resize(rows_ * config_.hidden_size);
  layers_.Begin(pass);

  Embed(pass);
  Tap(pass, 0, x_.data());
  for (int32_t i = 0; i < config_.num_layers; ++i) {
    const NativeLayer& layer = weights_->layers[i];
    layers_.Run(i, layer, {x_.data(), &layer.attention_norm}, x_.data());
    Tap(pass, i + 1, x_.data());
  }
  TapNormed(pass);
  if (pass.num_logit_rows() > 0) Head(pass);
}

void NativeDecoder::Embed(const NativePass& pass) {
  const int64_t hidden = config_.hidden_size;
  const float scale = static_cast<float>(config_.embedding_scale);
  for (int64_t row = 0; row < rows_; ++row) {
    float* const x = &x_[row * hidden];
    weights_->tokens.Row(pass.tokens[row], x);
    if (scale != 1) {
      for (int64_t i = 0; i < hidden; ++i) x[i] *= scale;
    }
    if (!weights_->positions.has_value()) continue;
    float* const position =
        &normed_[row * hidden];  // free until the first norm
    weights_->positions->Row(pass.positions[row], position);
    for (int64_t i = 0; i < hidden; ++i) x[i] += position[i];
  }
}

// x: [rows, hidden]
void NativeDecoder::Tap(const NativePass& pass, int32_t point,
                        const float* x) const {
  for (const NativePass::Sequence& part : pass.sequences) {
    if (part.tapped == nullptr) continue;
    part.tapped->Take(point, x + part.first_row * config_.hidden_size);
  }
}

// Norms all rows; the head norms only those with logits.
void NativeDecoder::TapNormed(const NativePass& pass) {
  const int32_t point = NormedTap(config_.num_layers);
  if (std::none_of(pass.sequences.begin(), pass.sequences.end(),
                   [point](const NativePass::Sequence& part) {
                     return !part.outputs.empty() ||
                            (part.tapped != nullptr &&
                             part.tapped->Wants(point));
                   })) {
    return;
  }
  layers_.Normalize(weights_->final_norm, rows_, x_.data(), normed_.data());
  Tap(pass, point, normed_.data());
  for (const NativePass::Sequence& part : pass.sequences) {
    std::copy_n(&normed_[part.first_row * config_.hidden_size],
                part.outputs.size(), part.outputs.begin());
  }
}

void NativeDecoder::Head(const NativePass& pass) {
  const int64_t hidden = config_.hidden_size;
  // Ascending, so rows move to the front without overwriting each other.
  for (int64_t i = 0; i < pass.num_logit_rows(); ++i) {
    if (pass.logit_rows[i] == i) continue;
    std::copy_n(&x_[pass.logit_rows[i] * hidden], hidden, &x_[i * hidden]);
  }
  const NativeLayers::Product product = {
      .linear = weights_->head,
      .input = {x_.data(), &weights_->final_norm},
      .rows = pass.num_logit_rows(),
      .softcap = static_cast<float>(config_.logit_softcap)};
  const auto take = [&pass](const nn::ProductChunk& chunk) {
    nn::ProductChunk part = chunk;
    for (const NativePass::Sequence& sequence : pass.sequences) {
      if (sequence.num_logit_rows == 0) continue;
      sequence.logits->Take(part);
      part.rows += sequence.num_logit_rows * part.stride;
    }
  };
  if (pass.head_chunks) {
    layers_.Stream(product, *pass.head_chunks, take);
  } else {
    layers_.Stream(product, take);
  }
}

}  // namespace espalier
