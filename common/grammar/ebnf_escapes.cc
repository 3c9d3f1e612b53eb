#include "common/grammar/ebnf_escapes.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace espalier::grammar {

std::string WithTwoDigitEscapes(absl::string_view ebnf) {
  std::string changed;
  for (size_t i = 0; i < ebnf.size(); ++i) {
    if (ebnf[i] != '\\' || i + 1 == ebnf.size()) {
      changed += ebnf[i];
      continue;
    }
    const bool is_byte = ebnf[i + 1] == 'x' && i + 3 < ebnf.size() &&
                         absl::ascii_isxdigit(ebnf[i + 2]) &&
                         absl::ascii_isxdigit(ebnf[i + 3]);
    if (is_byte) {
      absl::StrAppend(&changed, "\\U000000", ebnf.substr(i + 2, 2));
      i += 3;
    } else {
      absl::StrAppend(&changed, ebnf.substr(i, 2));
      ++i;
    }
  }
  return changed;
}

}  // namespace espalier::grammar
