#ifndef ESPALIER_COMMON_TOKENIZER_PRE_TOKENIZER_H_
#define ESPALIER_COMMON_TOKENIZER_PRE_TOKENIZER_H_

#include <string_view>

#include "absl/functional/function_ref.h"

namespace espalier {

enum class WordPattern {
  kWhole,  // no cut but the digits
  kGpt2,
  kQwen2,  // kQwen2Pattern
};

// As tokenizer.json of Qwen2 and Qwen3 has it.
inline constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Cuts text into the words within which byte pairs are merged. Stateless.
struct PreTokenizer {
  bool split_digits = false;  // every numeric character is a word of its own
  WordPattern words = WordPattern::kGpt2;

  // Calls `word` for each word in order; together they are `text`.
  // REQUIRES: `text` is valid UTF-8.
  void ForEachWord(std::string_view text,
                   absl::FunctionRef<void(std::string_view)> word) const;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_TOKENIZER_PRE_TOKENIZER_H_
