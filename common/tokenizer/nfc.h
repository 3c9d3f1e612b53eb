#ifndef ESPALIER_COMMON_TOKENIZER_NFC_H_
#define ESPALIER_COMMON_TOKENIZER_NFC_H_

#include <string>
#include <string_view>

namespace espalier {

// Unicode's normalization form C, in the Unicode version of the pinned
// `tokenizers` package (make_nfc_tables.py): "e" and an accent become one
// character.
// REQUIRES: `text` is valid UTF-8.
std::string Nfc(std::string_view text);

}  // namespace espalier

#endif  // ESPALIER_COMMON_TOKENIZER_NFC_H_
