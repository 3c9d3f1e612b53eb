#ifndef ESPALIER_TESTS_VERIFIER_RANDOM_MODEL_H_
#define ESPALIER_TESTS_VERIFIER_RANDOM_MODEL_H_

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "lab/sequence_model.h"

namespace espalier::verifier {

// Returns a random distribution for every context; about `zeros` of the entries
// are 0.
inline TableModel RandomModel(int64_t vocab, int64_t max_context, double zeros,
                              std::mt19937_64& random) {
  std::normal_distribution<float> logit(0.0f, 1.5f);
  std::bernoulli_distribution is_zero(zeros);
  std::uniform_int_distribution<int64_t> any_token(0, vocab - 1);
  TableModel model(vocab, max_context);
  Tokens context;
  for (int64_t row = 0; row < model.num_contexts(); ++row) {
    std::vector<double> weights;
    const int64_t kept = any_token(random);  // at least one is possible
    for (int64_t token = 0; token < vocab; ++token) {
      const bool zero = is_zero(random) && token != kept;
      weights.push_back(zero ? 0 : std::exp(logit(random)));
    }
    model.SetDistribution(context, weights);
    // The next context in order of length, then as digits.
    size_t digit = context.size();
    while (digit > 0 && context[digit - 1] == vocab - 1) context[--digit] = 0;
    if (digit > 0) {
      ++context[digit - 1];
    } else {
      context.push_back(0);
    }
  }
  return model;
}

}  // namespace espalier::verifier

#endif  // ESPALIER_TESTS_VERIFIER_RANDOM_MODEL_H_
