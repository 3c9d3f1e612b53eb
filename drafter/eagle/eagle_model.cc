#include "drafter/eagle/eagle_model.h"

#include <algorithm>
#include <utility>

#include "common/base/bf16.h"

namespace espalier::drafter {
namespace {

// a and b, [rows, size] each, side by side: [rows, 2 * size].
void JoinRows(const float* a, const float* b, int64_t rows, int64_t size,
              std::vector<float>& joined) {
  joined.resize(2 * rows * size);
  for (int64_t row = 0; row < rows; ++row) {
    float* const out = &joined[2 * row * size];
    std::copy_n(a + row * size, size, out);
    std::copy_n(b + row * size, size, out + size);
  }
}

}  // namespace

EagleModel::EagleModel(LoadedEagle head, HeadRuntime runtime,
                       int64_t kv_pool_tokens)
    : NativeRowModel(
          KvPageShape::Of(head.config.layer), *runtime.kernels,
          runtime.Room(KvPageShape::Of(head.config.layer), kv_pool_tokens),
          head.config.layer.hidden_size, head.config.features()),
      config_(std::move(head.config)),
      weights_(std::move(head.weights)),
      runtime_(std::move(runtime)),
      layers_(config_.layer, runtime_.layers()),
      candidates_(std::move(head.vocabulary), weights_->output_rows) {}

void EagleModel::Fuse(absl::Span<const uint16_t> states,
                      std::vector<float>& features) {
  std::vector<float> wide(states.size());
  std::transform(states.begin(), states.end(), wide.begin(), Bf16ToFloat);
  if (config_.mode == EagleMode::kEagle1) {
    features = std::move(wide);
    return;
  }
  const int64_t width = config_.features().width();
  const int64_t rows = static_cast<int64_t>(states.size()) / width;
  features.resize(rows * hidden_size());
  if (config_.fc_norm) NormTaps(rows, wide);
  if (weights_->input_norm.has_value()) {
    std::vector<float> normed(wide.size());
    layers_.Normalize(*weights_->input_norm, rows, wide.data(), normed.data());
    wide.swap(normed);
  }
  layers_.Multiply({.linear = weights_->fc,
                    .input = {wide.data()},
                    .rows = rows,
                    .out = features.data()});
}

// states: [rows, taps, target hidden]
void EagleModel::NormTaps(int64_t rows, std::vector<float>& states) {
  const int64_t size = config_.target_hidden_size;
  const int64_t taps = static_cast<int64_t>(config_.taps.size());
  std::vector<float> normed(states.size());
  for (int64_t i = 0; i < rows * taps; ++i) {
    layers_.Normalize(weights_->fc_norms[i % taps], 1, &states[i * size],
                      &normed[i * size]);
  }
  states.swap(normed);
}

void EagleModel::RunRows(NativePass& pass, std::vector<float>& features,
                         absl::Span<float> outputs) {
  const nn::ThreadPool::CallerPin pin(*runtime_.pool);
  features_.swap(features);
  layers_.Begin(pass);
  Enter(pass.tokens);
  layers_.Run(0, weights_->layer, {input_.data()}, x_.data());
  if (config_.norm_output) {
    normed_.resize(x_.size());
    layers_.Normalize(weights_->output_norm, pass.rows(), x_.data(),
                      normed_.data());
    x_.swap(normed_);
  }
  std::copy(x_.begin(), x_.end(), outputs.begin());
}

void EagleModel::Enter(const std::vector<TokenId>& tokens) {
  const int64_t hidden = hidden_size();
  const int64_t rows = static_cast<int64_t>(tokens.size());
  embeddings_.resize(rows * hidden);
  for (int64_t i = 0; i < rows; ++i) {
    weights_->tokens.Row(tokens[i], &embeddings_[i * hidden]);
  }
  x_.resize(rows * hidden);
  if (config_.mode == EagleMode::kEagle1) {
    EnterEagle1(rows);
  } else {
    EnterEagle3(rows);
  }
}

// x = fc(embedding | feature), which attention reads as it is.
void EagleModel::EnterEagle1(int64_t rows) {
  JoinRows(embeddings_.data(), features_.data(), rows, hidden_size(), input_);
  layers_.Multiply({.linear = weights_->fc,
                    .input = {input_.data()},
                    .rows = rows,
                    .out = x_.data()});
  input_ = x_;
}

// x = feature; attention reads (norm(embedding) | norm(feature)).
void EagleModel::EnterEagle3(int64_t rows) {
  normed_.resize(rows * hidden_size());
  layers_.Normalize(weights_->feature_norm, rows, features_.data(),
                    normed_.data());
  x_ = config_.norm_before_residual ? normed_ : features_;
  layers_.Normalize(weights_->embedding_norm, rows, embeddings_.data(),
                    features_.data());  // no longer needed
  JoinRows(features_.data(), normed_.data(), rows, hidden_size(), input_);
}

absl::StatusOr<std::vector<std::vector<Candidate>>> EagleModel::RankOutputs(
    const float* outputs, absl::Span<const CandidateHead::Query> queries,
    int64_t width) {
  const nn::ThreadPool::CallerPin pin(*runtime_.pool);
  if (config_.mode == EagleMode::kEagle3 && !config_.norm_output) {
    const int64_t rows = static_cast<int64_t>(queries.size());
    normed_.resize(rows * hidden_size());
    layers_.Normalize(weights_->output_norm, rows, outputs, normed_.data());
    outputs = normed_.data();
  }
  return candidates_.Rank(layers_, outputs, queries, width);
}

}  // namespace espalier::drafter
