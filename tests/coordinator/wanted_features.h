#ifndef ESPALIER_TESTS_COORDINATOR_WANTED_FEATURES_H_
#define ESPALIER_TESTS_COORDINATOR_WANTED_FEATURES_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "tests/coordinator/toy_cluster.h"

namespace espalier::coordinator {

inline FeatureContract Taps(std::vector<int32_t> taps) {
  return {.taps = std::move(taps),
          .hidden_size = ToyTarget::kShape.hidden_size};
}

// Returns where the last request's features end: before its root.
inline int64_t RootOf(const FakeDraftEndpoint& drafter) {
  return drafter.requests().back().update.committed_length() - 1;
}

}  // namespace espalier::coordinator

#endif  // ESPALIER_TESTS_COORDINATOR_WANTED_FEATURES_H_
