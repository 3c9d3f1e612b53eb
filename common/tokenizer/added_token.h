#ifndef ESPALIER_COMMON_TOKENIZER_ADDED_TOKEN_H_
#define ESPALIER_COMMON_TOKENIZER_ADDED_TOKEN_H_

#include <string>

#include "common/spec/types.h"

namespace espalier {

// A token that is cut out of the text before anything else looks at it.
struct AddedToken {
  TokenId id = 0;
  std::string content;
  bool special = false;     // a control token, not text
  bool normalized = false;  // looked for after those that are not
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_TOKENIZER_ADDED_TOKEN_H_
