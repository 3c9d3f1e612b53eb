#ifndef ESPALIER_COMMON_SPEC_DRAFT_LAWS_H_
#define ESPALIER_COMMON_SPEC_DRAFT_LAWS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/spec/types.h"

namespace espalier {

// The weights of a law sum to this.
inline constexpr uint32_t kLawTotal = 1 << 24;

// How several tokens are drawn from one law.
enum class LawDraws : uint8_t {
  kIndependent,
  // Each from the law without the tokens drawn before, in the order of the
  // slots. The law is that of one node, and all its draws differ.
  kWithoutReplacement,
};

// A law that a drafter drew tokens from: token i with probability
// weights[i] / kLawTotal. Truncated to the likeliest tokens and rounded before
// anything is drawn, so that drafter and verifier mean the same law to the bit.
struct DraftLaw {
  absl::Span<const TokenId> tokens;    // [n] ascending
  absl::Span<const uint32_t> weights;  // [n] > 0, their sum is kLawTotal
  LawDraws draws = LawDraws::kIndependent;
};

// The laws of a tree, by index.
class DraftLaws {
 public:
  // Appends a law and returns its index. Weights and lengths are not checked.
  int32_t Add(absl::Span<const TokenId> tokens,
              absl::Span<const uint32_t> weights,
              LawDraws draws = LawDraws::kIndependent);
  int32_t Add(const DraftLaw& law) {
    return Add(law.tokens, law.weights, law.draws);
  }

  int32_t size() const { return static_cast<int32_t>(ends_.size()); }
  // REQUIRES: 0 <= law < size().
  DraftLaw operator[](int32_t law) const;

  // INVALID_ARGUMENT: names the law that is not one over the vocabulary.
  absl::Status Validate(int64_t vocab_size) const;

 private:
  std::vector<int64_t> ends_;      // [laws] in the columns below
  std::vector<TokenId> tokens_;    // of all laws
  std::vector<uint32_t> weights_;  // of all laws
  std::vector<LawDraws> draws_;    // [laws]
};

// How a node was found.
struct DraftSlot {
  // Chosen, not drawn: a likeliest token, a lookup (DETERMINISTIC).
  static constexpr int32_t kChosen = -1;

  int32_t node = 0;
  int32_t law = kChosen;  // else: drawn from this law (SAMPLED)

  friend bool operator==(const DraftSlot&, const DraftSlot&) = default;
};

// Integer weights for probabilities (>= 0, not all 0; need not be normalised)
// that sum to kLawTotal, each within one of its share. Small ones become 0.
std::vector<uint32_t> LawWeights(absl::Span<const double> probabilities);

}  // namespace espalier

#endif  // ESPALIER_COMMON_SPEC_DRAFT_LAWS_H_
