#include "verifier/choosers.h"

#include <algorithm>

#include "common/spec/noisy_argmax.h"

namespace espalier::verifier {

TokenId GumbelChooser::Draw(int64_t position, const TargetLaw& law) {
  NoisyArgmax argmax(GumbelNoise(seed_, position));
  const auto& weights = law.log_weights;
  argmax.ConsiderAll(
      static_cast<int64_t>(weights.size()),
      std::max_element(weights.begin(), weights.end()) - weights.begin(),
      [&](int64_t i) { return law.token(i); },
      [&](int64_t i) { return weights[i]; });
  if (law.near_tie || argmax.near_tie()) ++near_ties_;
  return argmax.winner();
}

}  // namespace espalier::verifier
