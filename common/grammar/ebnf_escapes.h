#ifndef ESPALIER_COMMON_GRAMMAR_EBNF_ESCAPES_H_
#define ESPALIER_COMMON_GRAMMAR_EBNF_ESCAPES_H_

#include <string>

#include "absl/strings/string_view.h"

namespace espalier::grammar {

// Returns a grammar in EBNF with \U000000HH in place of \xHH: xgrammar takes
// every hexadecimal digit that follows \x, GBNF takes two.
std::string WithTwoDigitEscapes(absl::string_view ebnf);

}  // namespace espalier::grammar

#endif  // ESPALIER_COMMON_GRAMMAR_EBNF_ESCAPES_H_
