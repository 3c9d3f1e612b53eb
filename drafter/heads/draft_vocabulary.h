#ifndef ESPALIER_DRAFTER_HEADS_DRAFT_VOCABULARY_H_
#define ESPALIER_DRAFTER_HEADS_DRAFT_VOCABULARY_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/model/files/tensor_view.h"
#include "common/speculation/types.h"

namespace espalier::drafter {

// The tokens that a draft head can propose: all of the target's, or only
// frequent ones. Immutable.
class DraftVocabulary {
 public:
  static DraftVocabulary Full(int64_t target_size);

  // Makes a vocabulary from a checkpoint's `d2t`, integers [size]: draft token
  // i is the target's token i + d2t[i]. INVALID_ARGUMENT names an entry outside
  // of the target's vocabulary, or a repeated one.
  static absl::StatusOr<DraftVocabulary> FromOffsets(const TensorView& d2t,
                                                     int64_t target_size);

  int64_t size() const { return static_cast<int64_t>(tokens_.size()); }
  absl::Span<const TokenId> tokens() const { return tokens_; }  // [size]

 private:
  explicit DraftVocabulary(std::vector<TokenId> tokens)
      : tokens_(std::move(tokens)) {}

  std::vector<TokenId> tokens_;
};

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_HEADS_DRAFT_VOCABULARY_H_
