#ifndef ESPALIER_COMMON_GRAMMAR_STRUCTURAL_TAG_H_
#define ESPALIER_COMMON_GRAMMAR_STRUCTURAL_TAG_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace espalier::grammar {

// Returns a structural tag of xgrammar in which every JSON schema and every
// regular expression is a grammar that we made, so that they mean the same
// everywhere. INVALID_ARGUMENT with the path: it is no JSON, or some part of it
// cannot be followed. What the rest means is for xgrammar to say.
absl::StatusOr<std::string> WithOwnGrammars(absl::string_view tag,
                                            bool compact);

}  // namespace espalier::grammar

#endif  // ESPALIER_COMMON_GRAMMAR_STRUCTURAL_TAG_H_
