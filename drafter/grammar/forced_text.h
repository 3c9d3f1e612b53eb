#ifndef ESPALIER_DRAFTER_GRAMMAR_FORCED_TEXT_H_
#define ESPALIER_DRAFTER_GRAMMAR_FORCED_TEXT_H_

#include <array>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/grammar/grammar.h"
#include "common/speculation/types.h"

namespace espalier::drafter {

// The text that a grammar forces.
struct ForcedText {
  std::string bytes;
  bool at_end = false;  // after them, the output can only end
};

// Finds it byte by byte, by the tokens of a vocabulary that are single bytes.
class ForcedTextFinder {
 public:
  struct Limits {
    size_t bytes = 96;
    absl::Duration time = absl::Milliseconds(4);
  };

  explicit ForcedTextFinder(const grammar::Vocabulary& vocabulary);

  // Returns what has to follow the output. If it is one character, but white
  // space may come before, it counts as forced: with the white space that
  // follows the same character elsewhere in `written`, the output's text.
  // `matcher` is left anywhere. Errors are the matcher's.
  absl::StatusOr<ForcedText> After(absl::Span<const TokenId> output,
                                   std::string written, const Limits& limits,
                                   grammar::Matcher& matcher) const;

 private:
  std::array<std::optional<TokenId>, 256> byte_tokens_;
  std::vector<TokenId> end_tokens_;
};

}  // namespace espalier::drafter

#endif  // ESPALIER_DRAFTER_GRAMMAR_FORCED_TEXT_H_
