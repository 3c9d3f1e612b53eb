#ifndef ESPALIER_COMMON_TOKENIZER_PRE_TOKENIZER_H_
#define ESPALIER_COMMON_TOKENIZER_PRE_TOKENIZER_H_

#include <string_view>

#include "absl/functional/function_ref.h"

namespace espalier {

// Cuts text into the words within which byte pairs are merged. Stateless.
struct PreTokenizer {
  bool split_digits = false;  // every numeric character is a word of its own
  bool split_words = true;    // GPT-2's pattern; false: no cut but the digits

  // Calls `word` for each word in order; together they are `text`.
  // REQUIRES: `text` is valid UTF-8.
  void ForEachWord(std::string_view text,
                   absl::FunctionRef<void(std::string_view)> word) const;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_TOKENIZER_PRE_TOKENIZER_H_
