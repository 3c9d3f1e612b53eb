#ifndef ESPALIER_COMMON_TOKENIZER_PRE_TOKENIZER_H_
#define ESPALIER_COMMON_TOKENIZER_PRE_TOKENIZER_H_

#include <string_view>

#include "absl/functional/function_ref.h"

namespace espalier {

enum class WordPattern {
  kWhole,  // split nowhere except at digits (split_digits)
  kGpt2,
  kQwen2,   // kQwen2Pattern
  kLlama3,  // kLlama3Pattern
};

// As in the tokenizer.json of Qwen2 and Qwen3.
inline constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// As in the tokenizer.json of Llama 3: up to three digits together.
inline constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Splits text into words; byte pairs are merged within a word only. Stateless.
struct PreTokenizer {
  bool split_digits = false;  // every numeric character is a separate word
  WordPattern words = WordPattern::kGpt2;

  // Calls `word` for each word in order. Concatenated, the words are `text`.
  // REQUIRES: `text` is valid UTF-8.
  void ForEachWord(std::string_view text,
                   absl::FunctionRef<void(std::string_view)> word) const;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_TOKENIZER_PRE_TOKENIZER_H_
