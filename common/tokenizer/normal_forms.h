#ifndef ESPALIER_COMMON_TOKENIZER_NORMAL_FORMS_H_
#define ESPALIER_COMMON_TOKENIZER_NORMAL_FORMS_H_

#include <string>
#include <string_view>

namespace espalier {

// Unicode's normalization forms (Unicode Standard Annex 15), in the Unicode
// version of the pinned `tokenizers` package (make_normal_form_tables.py).
enum class NormalForm {
  kNfc,   // composed: "e" and an accent are one character
  kNfd,   // decomposed
  kNfkc,  // composed, and characters that only look different are the same
  kNfkd,
};

inline constexpr NormalForm kNormalForms[] = {
    NormalForm::kNfc, NormalForm::kNfd, NormalForm::kNfkc, NormalForm::kNfkd};

const char* NameOf(NormalForm form);  // "NFC"

// REQUIRES: `text` is valid UTF-8.
std::string ToNormalForm(std::string_view text, NormalForm form);

// Character by character, as the pinned package does it: no language, and no
// final sigma. REQUIRES: `text` is valid UTF-8.
std::string LowerCase(std::string_view text);

}  // namespace espalier

#endif  // ESPALIER_COMMON_TOKENIZER_NORMAL_FORMS_H_
