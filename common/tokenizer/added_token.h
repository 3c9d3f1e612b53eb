#ifndef ESPALIER_COMMON_TOKENIZER_ADDED_TOKEN_H_
#define ESPALIER_COMMON_TOKENIZER_ADDED_TOKEN_H_

#include <string>

#include "common/spec/types.h"

namespace espalier {

// A token that is matched in the text before any other step of encoding.
struct AddedToken {
  TokenId id = 0;
  std::string content;
  bool special = false;     // a control token, not text
  bool normalized = false;  // matched after those that are not normalized
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_TOKENIZER_ADDED_TOKEN_H_
