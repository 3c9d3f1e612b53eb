#ifndef ESPALIER_COMMON_TOKENIZER_ADDED_TOKEN_H_
#define ESPALIER_COMMON_TOKENIZER_ADDED_TOKEN_H_

#include <string>

#include "common/speculation/types.h"

namespace espalier {

// A token that is matched in the text before any other step of encoding.
struct AddedToken {
  TokenId id = 0;
  std::string content;
  bool special = false;       // a control token, not text
  bool normalized = false;    // matched after those that are not normalized
  bool single_word = false;   // matched only where it touches no word
  bool left_blanks = false;   // takes the white space before it
  bool right_blanks = false;  // and after it

  bool operator==(const AddedToken&) const = default;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_TOKENIZER_ADDED_TOKEN_H_
