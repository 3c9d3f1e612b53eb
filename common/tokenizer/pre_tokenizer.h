#ifndef ESPALIER_COMMON_TOKENIZER_PRE_TOKENIZER_H_
#define ESPALIER_COMMON_TOKENIZER_PRE_TOKENIZER_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "common/tokenizer/split_pattern.h"

namespace espalier {

// The pattern of ByteLevel.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|)"
    R"(\s+(?!\S)|\s+)";

// The pattern in the tokenizer.json of Qwen2 and Qwen3.
inline constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// The pattern in the tokenizer.json of Llama 3: up to three digits together.
inline constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// SentencePiece's way to write spaces.
struct Metaspace {
  enum class Prepend { kAlways, kFirst, kNever };

  std::string replacement;  // "▁": what a space becomes
  // Says where it is put before a part of the text that does not begin with it:
  // each part between added tokens, or one at the beginning of the text.
  Prepend prepend = Prepend::kAlways;
  bool split = false;  // words begin with it

  bool operator==(const Metaspace&) const = default;
};

// Splits text into words; byte pairs are merged within a word only. Immutable.
struct PreTokenizer {
  // After so many of the splits, every numeric character becomes a piece of its
  // own. Nullopt: none does.
  std::optional<size_t> split_digits = {};
  // Each splits the pieces that those before it have made; a piece ends the
  // view of "(?!...)". None: the pieces are words.
  std::vector<SplitPattern> splits = {};
  std::optional<Metaspace> metaspace = {};  // alone

  // Calls `word` for each word in order. Concatenated, the words are `text`,
  // but for what Metaspace does. `at_start`: the text's part is its first one.
  // REQUIRES: `text` is valid UTF-8.
  void ForEachWord(std::string_view text, bool at_start,
                   absl::FunctionRef<void(std::string_view)> word) const;
};

// REQUIRES: the pattern is supported.
// REQUIRES: the pattern is supported.
SplitPattern KnownPattern(std::string_view pattern);

// `split_digits`: before it, every digit becomes a word.
PreTokenizer SplitBy(std::string_view pattern, bool split_digits = false);

}  // namespace espalier

#endif  // ESPALIER_COMMON_TOKENIZER_PRE_TOKENIZER_H_
