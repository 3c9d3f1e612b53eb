#ifndef ESPALIER_COMMON_GRAMMAR_STRUCTURAL_TAG_H_
#define ESPALIER_COMMON_GRAMMAR_STRUCTURAL_TAG_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace espalier::grammar {

// Returns a structural tag of xgrammar in which every JSON schema and every
// regular expression is a grammar that we made, so that they mean the same
// everywhere. INVALID_ARGUMENT with the path: it is no JSON, or the grammars
// cannot express some part of it. xgrammar checks all other parts of the tag.
absl::StatusOr<std::string> WithOwnGrammars(absl::string_view tag,
                                            bool compact);

}  // namespace espalier::grammar

#endif  // ESPALIER_COMMON_GRAMMAR_STRUCTURAL_TAG_H_
