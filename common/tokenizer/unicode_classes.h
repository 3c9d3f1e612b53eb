#ifndef ESPALIER_COMMON_TOKENIZER_UNICODE_CLASSES_H_
#define ESPALIER_COMMON_TOKENIZER_UNICODE_CLASSES_H_

#include <cstdint>

namespace espalier {

// What the pre-tokenizer asks of a character, answered as the pinned
// `tokenizers` package answers (make_unicode_classes.py), because a vocabulary
// is only right with the classes it was trained with.
enum class CharClass : uint8_t {
  kLetter = 0,  // \p{L}
  kNumber = 1,  // \p{N}
  kSpace = 2,   // \s
  kOther = 3,
};

CharClass ClassOf(char32_t code_point);

// Rust's char::is_numeric. Nearly kNumber, but of another Unicode version.
bool IsNumeric(char32_t code_point);

}  // namespace espalier

#endif  // ESPALIER_COMMON_TOKENIZER_UNICODE_CLASSES_H_
