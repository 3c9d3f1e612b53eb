#include "tests/verifier/exact_law.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/base/check.h"

namespace espalier::verifier {
namespace {

// Adds weight * P(target continues `emitted` so) to every full sequence.
void SpreadOverContinuations(const TableModel& target, int64_t length,
                             Tokens& emitted, double weight,
                             std::vector<double>& joint) {
  if (static_cast<int64_t>(emitted.size()) >= length) {
    joint[target.SequenceIndex(absl::MakeSpan(emitted).first(length))] +=
        weight;
    return;
  }
  const auto law = target.Law(emitted);
  for (TokenId token = 0; token < target.vocab(); ++token) {
    if (law[token] == 0) continue;
    emitted.push_back(token);
    SpreadOverContinuations(target, length, emitted, weight * law[token],
                            joint);
    emitted.pop_back();
  }
}

}  // namespace

std::vector<double> Probabilities(absl::Span<const float> log_weights) {
  std::vector<double> law;
  double sum = 0;
  for (float weight : log_weights) {
    law.push_back(std::exp(static_cast<double>(weight)));
    sum += law.back();
  }
  for (double& probability : law) probability /= sum;
  return law;
}

TableModel::TableModel(int64_t vocab, int64_t max_context, double zeros,
                       std::mt19937_64& random)
    : vocab_(vocab) {
  int64_t contexts = 0;
  int64_t contexts_of_length = 1;
  for (int64_t length = 0; length <= max_context; ++length) {
    contexts += contexts_of_length;
    contexts_of_length *= vocab;
  }
  std::normal_distribution<float> logit(0.0f, 1.5f);
  std::bernoulli_distribution is_zero(zeros);
  std::uniform_int_distribution<int64_t> any_token(0, vocab - 1);
  for (int64_t context = 0; context < contexts; ++context) {
    std::vector<float> row(vocab);
    const int64_t kept = any_token(random);  // at least one is possible
    for (int64_t token = 0; token < vocab; ++token) {
      row[token] = is_zero(random) && token != kept
                       ? -std::numeric_limits<float>::infinity()
                       : logit(random);
    }
    const std::vector<double> law = Probabilities(row);
    log_weights_.insert(log_weights_.end(), row.begin(), row.end());
    laws_.insert(laws_.end(), law.begin(), law.end());
  }
}

int64_t TableModel::SequenceIndex(absl::Span<const TokenId> tokens) const {
  int64_t index = 0;
  for (TokenId token : tokens) index = index * vocab_ + token;
  return index;
}

size_t TableModel::Row(absl::Span<const TokenId> context) const {
  int64_t row = 0;  // in breadth-first order of all contexts
  for (TokenId token : context) row = row * vocab_ + token + 1;
  ESPALIER_CHECK((row + 1) * vocab_ <= static_cast<int64_t>(laws_.size()));
  return row * vocab_;
}

absl::Span<const double> TableModel::Law(
    absl::Span<const TokenId> context) const {
  return absl::MakeSpan(laws_).subspan(Row(context), vocab_);
}

absl::Span<const float> TableModel::LogWeights(
    absl::Span<const TokenId> context) const {
  return absl::MakeSpan(log_weights_).subspan(Row(context), vocab_);
}

std::vector<double> TableModel::JointLaw(int64_t length) const {
  std::vector<double> joint(std::lround(std::pow(vocab_, length)), 0.0);
  Tokens emitted;
  SpreadOverContinuations(*this, length, emitted, 1, joint);
  return joint;
}

absl::StatusOr<TargetLaw> TableLaws::LawAt(int32_t node) {
  Tokens context = committed_;
  for (int32_t step : tree_.PathTo(node)) context.push_back(tree_.tokens[step]);
  return TargetLaw{.log_weights = model_.LogWeights(context)};
}

TokenId EnumeratingChooser::Draw(int64_t position, const TargetLaw& law) {
  for (const Drawn& drawn : drawn_) {
    if (drawn.position == position &&
        absl::MakeSpan(drawn.log_weights) == law.log_weights) {
      return drawn.token;
    }
  }
  const TokenId token =
      law.token(choices_.Choose(Probabilities(law.log_weights)));
  drawn_.push_back(
      {position, {law.log_weights.begin(), law.log_weights.end()}, token});
  return token;
}

ExactLaw EnumerateLaw(const TableModel& target, int64_t length,
                      const Round& round) {
  ExactLaw law;
  law.joint.assign(std::lround(std::pow(target.vocab(), length)), 0.0);
  ChoiceTree::ForEachOutcome([&](ChoiceTree& choices) {
    Tokens emitted = round(choices);
    ESPALIER_CHECK(!emitted.empty());
    law.expected_emitted += choices.weight() * emitted.size();
    SpreadOverContinuations(target, length, emitted, choices.weight(),
                            law.joint);
  });
  return law;
}

Round RuleRound(const VerificationRule& rule, const TableModel& target,
                const TokenTree& tree) {
  return [&rule, &target, &tree](ChoiceTree& choices) {
    const Tokens committed;  // the table has no context before the root
    TableLaws laws(target, committed, tree);
    EnumeratingChooser chooser(choices);
    const auto acceptance =
        rule.Accept(tree, /*first_position=*/1, laws, chooser);
    ESPALIER_CHECK(acceptance.ok());
    Tokens emitted;
    int32_t parent = 0;
    for (int32_t node : acceptance->path) {
      ESPALIER_CHECK(tree.parents[node] == parent);
      emitted.push_back(tree.tokens[node]);
      parent = node;
    }
    emitted.push_back(acceptance->bonus_token);
    return emitted;
  };
}

double MaxError(const std::vector<double>& a, const std::vector<double>& b) {
  ESPALIER_CHECK(a.size() == b.size());
  double error = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    error = std::max(error, std::abs(a[i] - b[i]));
  }
  return error;
}

}  // namespace espalier::verifier
