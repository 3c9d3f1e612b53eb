#ifndef ESPALIER_VERIFIER_ENGINE_FEATURE_CACHE_H_
#define ESPALIER_VERIFIER_ENGINE_FEATURE_CACHE_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/speculation/features.h"
#include "common/speculation/prefix_index.h"
#include "common/speculation/types.h"

namespace espalier::verifier {

// The target's features of texts that were computed, so that a session whose
// K/V comes from other sequences (LanguageModel::Share) has those of its whole
// prompt, too. They are kept by block of text (PrefixIndex), the least recently
// used ones are dropped. Not thread-safe.
class FeatureCache {
 public:
  struct Limits {
    int64_t block_tokens = 0;
    int64_t max_bytes = 0;
  };
  explicit FeatureCache(const Limits& limits) : limits_(limits) {}

  struct Text {
    absl::Span<const TokenId> tokens;
    absl::string_view salt;          // see LanguageModel::Share
    absl::Span<const int32_t> taps;  // of the rows, ascending
  };

  // Appends features to `rows`, from its end on, as far as those of whole
  // blocks of the text are held at all of the taps. REQUIRES: rows.width is
  // set.
  void Extend(const Text& text, FeatureRows& rows);

  // Returns where `rows`, which end at `end`, would end after Extend.
  int64_t EndAfterExtend(const Text& text, int64_t end) const;

  // Takes the features of whole blocks out of `rows`, which are of the text's
  // positions. Those of the last block stay if it is incomplete.
  void Offer(const Text& text, FeatureRows& rows);

  int64_t num_bytes() const { return num_bytes_; }

 private:
  struct Features {
    std::vector<int32_t> taps = {};
    std::vector<uint16_t> rows = {};  // [block_tokens, taps, hidden]

    int64_t num_bytes() const;
  };
  using Index = PrefixIndex<Features>;
  class Chain;

  void Put(Features features, Index::Block* block);
  void CutToLimit();

  const Limits limits_;
  Index index_;
  int64_t num_bytes_ = 0;
};

}  // namespace espalier::verifier

#endif  // ESPALIER_VERIFIER_ENGINE_FEATURE_CACHE_H_
