#include "verifier/choosers.h"

#include <algorithm>

#include "common/spec/noisy_argmax.h"

namespace espalier::verifier {

TokenId GumbelChooser::Draw(int64_t position, const TargetLaw& law) {
  NoisyArgmax argmax(GumbelNoise(seed_, position));
  const auto& weights = law.log_weights;
  const int64_t n = static_cast<int64_t>(weights.size());
  // The likeliest token first: a high score to beat rules out the most.
  const int64_t likeliest =
      std::max_element(weights.begin(), weights.end()) - weights.begin();
  argmax.Consider(law.token(likeliest), weights[likeliest]);
  for (int64_t i = 0; i < n; ++i) {
    if (weights[i] >= argmax.floor() && i != likeliest) {
      argmax.Consider(law.token(i), weights[i]);
    }
  }
  if (law.near_tie || argmax.near_tie()) ++near_ties_;
  return argmax.winner();
}

}  // namespace espalier::verifier
