#include "lab/sequence_model.h"

#include <cmath>
#include <numeric>

#include "common/base/check.h"

namespace espalier::verifier {
namespace {

int64_t Power(int64_t base, int64_t exponent) {
  int64_t power = 1;
  for (; exponent > 0; --exponent) power *= base;
  return power;
}

void Spread(const SequenceModel& model, int64_t length, Tokens& text,
            double weight, std::vector<double>& joint) {
  if (static_cast<int64_t>(text.size()) >= length) {
    const auto cut = absl::MakeConstSpan(text).first(length);
    joint[SequenceIndex(model.vocab(), cut)] += weight;
    return;
  }
  const auto distribution = model.Distribution(text);
  for (TokenId token = 0; token < model.vocab(); ++token) {
    if (distribution[token] == 0) continue;
    text.push_back(token);
    Spread(model, length, text, weight * distribution[token], joint);
    text.pop_back();
  }
}

}  // namespace

TableModel::TableModel(int64_t vocab, int64_t max_context) : vocab_(vocab) {
  int64_t contexts = 0;
  for (int64_t length = 0; length <= max_context; ++length) {
    contexts += Power(vocab, length);
  }
  distributions_.assign(contexts * vocab, 1.0 / static_cast<double>(vocab));
}

void TableModel::SetDistribution(absl::Span<const TokenId> context,
                                 absl::Span<const double> weights) {
  ESPALIER_CHECK(static_cast<int64_t>(weights.size()) == vocab_);
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  const int64_t row = ContextIndex(context) * vocab_;
  for (int64_t token = 0; token < vocab_; ++token) {
    distributions_[row + token] = weights[token] / sum;
  }
}

int64_t TableModel::num_contexts() const {
  return static_cast<int64_t>(distributions_.size()) / vocab_;
}

absl::Span<const double> TableModel::Distribution(
    absl::Span<const TokenId> context) const {
  return absl::MakeSpan(distributions_)
      .subspan(ContextIndex(context) * vocab_, vocab_);
}

int64_t TableModel::ContextIndex(absl::Span<const TokenId> context) const {
  int64_t index = 0;
  for (TokenId token : context) index = index * vocab_ + token + 1;
  ESPALIER_CHECK(index < num_contexts());
  return index;
}

absl::StatusOr<TargetDistribution> ModelDistributions::DistributionAt(
    int32_t node) {
  Tokens context = committed_;
  for (TokenId token : TextOf(tree_, node)) context.push_back(token);
  const auto distribution = model_.Distribution(context);
  log_weights_.clear();
  for (double probability : distribution) {
    log_weights_.push_back(static_cast<float>(std::log(probability)));
  }
  return TargetDistribution{.log_weights = log_weights_,
                            .probabilities = distribution};
}

Tokens TextOf(const TokenTree& tree, int32_t node) {
  Tokens text;
  for (int32_t step : tree.PathTo(node)) text.push_back(tree.tokens[step]);
  return text;
}

int64_t SequenceIndex(int64_t vocab, absl::Span<const TokenId> tokens) {
  int64_t index = 0;
  for (TokenId token : tokens) index = index * vocab + token;
  return index;
}

std::vector<double> JointDistribution(const SequenceModel& model,
                                      int64_t length) {
  std::vector<double> joint(Power(model.vocab(), length), 0.0);
  SpreadOverContinuations(model, length, {}, 1, joint);
  return joint;
}

void SpreadOverContinuations(const SequenceModel& model, int64_t length,
                             Tokens text, double weight,
                             std::vector<double>& joint) {
  Spread(model, length, text, weight, joint);
}

}  // namespace espalier::verifier
