#ifndef ESPALIER_COMMON_TOKENIZER_UNICODE_CLASSES_H_
#define ESPALIER_COMMON_TOKENIZER_UNICODE_CLASSES_H_

#include <cstdint>

namespace espalier {

// Character classes for the pre-tokenizer, equal to those of the pinned
// `tokenizers` package (make_unicode_classes.py), because a vocabulary needs
// the classes that it was trained with.
enum class CharClass : uint8_t {
  kLetter = 0,  // \p{L}
  kNumber = 1,  // \p{N}
  kSpace = 2,   // \s
  kOther = 3,
};

CharClass ClassOf(char32_t code_point);

// Rust's char::is_numeric: nearly kNumber, but of another Unicode version.
bool IsNumeric(char32_t code_point);

}  // namespace espalier

#endif  // ESPALIER_COMMON_TOKENIZER_UNICODE_CLASSES_H_
