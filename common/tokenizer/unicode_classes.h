#ifndef ESPALIER_COMMON_TOKENIZER_UNICODE_CLASSES_H_
#define ESPALIER_COMMON_TOKENIZER_UNICODE_CLASSES_H_

#include <cstdint>

namespace espalier {

// Character classes for the pre-tokenizer, equal to those of the pinned
// `tokenizers` package (make_unicode_classes.py), because a vocabulary needs
// the classes that it was trained with. No character has two.
enum class CharClass : uint8_t {
  kUpper = 0,           // \p{Lu}
  kLower = 1,           // \p{Ll}
  kTitle = 2,           // \p{Lt}
  kModifierLetter = 3,  // \p{Lm}
  kOtherLetter = 4,     // \p{Lo}
  kMark = 5,            // \p{M}
  kNumber = 6,          // \p{N}
  kPunctuation = 7,     // \p{P}
  kSymbol = 8,          // \p{S}
  kSpace = 9,           // \s
  kOther = 10,
};

CharClass ClassOf(char32_t code_point);

// Rust's char::is_numeric: nearly kNumber, but of another Unicode version.
bool IsNumeric(char32_t code_point);

// \w of Rust's regular expressions: what an added token that is a single word
// does not touch.
bool IsWordPart(char32_t code_point);

}  // namespace espalier

#endif  // ESPALIER_COMMON_TOKENIZER_UNICODE_CLASSES_H_
