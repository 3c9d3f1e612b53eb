#ifndef ESPALIER_DRAFTER_NGRAM_SUCCESSOR_COUNTS_H_
#define ESPALIER_DRAFTER_NGRAM_SUCCESSOR_COUNTS_H_

#include <cstdint>

#include "absl/types/span.h"
#include "common/speculation/types.h"

namespace espalier::drafter {

struct SuccessorCount {
  TokenId token = 0;
  uint32_t count = 0;

  friend bool operator==(const SuccessorCount&,
                         const SuccessorCount&) = default;
};

// The tokens that followed a context in some text.
struct SuccessorCounts {
  // Distinct tokens; rare ones may be missing.
  absl::Span<const SuccessorCount> successors;
  int64_t total = 0;     // occurrences of the context, missing ones included
  int64_t distinct = 0;  // different successors, missing ones included
};

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_NGRAM_SUCCESSOR_COUNTS_H_
