#ifndef ESPALIER_COMMON_TOKENIZER_SPLIT_PATTERN_H_
#define ESPALIER_COMMON_TOKENIZER_SPLIT_PATTERN_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

namespace espalier {

// A regular expression as tokenizer.json files have them to split text: the
// part of Oniguruma's language that published tokenizers use. Supported are
// alternatives, groups "(?:...)" and "(?i:...)" (of one character or ASCII
// letters), sets "[...]", \s \S \r \n \t, \p and \P of L, Lu, Ll, Lt, Lm, Lo,
// M, N, P and S, the greedy quantifiers ? * + {n} {n,m}, "(?!...)", "$", and
// characters. A group may have no quantifier but "?". Matching is by
// backtracking, which is linear for the published patterns. A library would
// know another Unicode version than the one that vocabularies were trained
// with. Immutable.
class SplitPattern {
 public:
  // UNIMPLEMENTED: something else, or a pattern that matches no characters;
  // names the place.
  static absl::StatusOr<SplitPattern> Parse(std::string_view pattern);

  // Calls `piece` for each match and for the text between matches, in order.
  // REQUIRES: `text` is valid UTF-8.
  void ForEachPiece(std::string_view text,
                    absl::FunctionRef<void(std::string_view)> piece) const;

  const std::string& pattern() const { return pattern_; }

 private:
  class Parser;

  static constexpr size_t kNoMatch = std::numeric_limits<size_t>::max();

  // A set of characters.
  struct Set {
    std::array<bool, 128> ascii{};  // complete for ASCII
    uint32_t classes = 0;           // bit by CharClass, for the others
    std::vector<std::pair<char32_t, char32_t>> ranges;  // for the others
    bool negated = false;                               // for the others

    bool Contains(char32_t c) const;
  };
  enum class Op : uint8_t {
    kRepeat,    // `least` to `most` characters of the set
    kFork,      // continue at the next instruction, or else at `target`
    kJump,      // continue at `target`
    kLineEnd,   // go on at the end of the text or before "\n"
    kNotAhead,  // if what follows does not match, continue at `target`
    kMatch,
  };
  struct Instruction {
    Op op = Op::kMatch;
    size_t set = 0;
    size_t least = 0;
    size_t most = 0;
    size_t target = 0;
  };

  SplitPattern() = default;
  size_t MatchEnd(std::string_view text, size_t at, size_t instruction) const;
  size_t RepeatEnd(std::string_view text, size_t at, size_t instruction) const;

  std::string pattern_;
  std::vector<Set> sets_;
  std::vector<Instruction> program_;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_TOKENIZER_SPLIT_PATTERN_H_
