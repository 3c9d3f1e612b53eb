#ifndef ESPALIER_COMMON_GRAMMAR_SCHEMA_KEYWORDS_H_
#define ESPALIER_COMMON_GRAMMAR_SCHEMA_KEYWORDS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace espalier::grammar {

// INVALID_ARGUMENT names the first keyword of a JSON schema that the compiler
// would silently ignore, so that an answer could break it; or says why the text
// is no schema. Keywords that only describe (title, default, ...) pass.
absl::Status CheckSchemaKeywords(absl::string_view schema);

}  // namespace espalier::grammar

#endif  // ESPALIER_COMMON_GRAMMAR_SCHEMA_KEYWORDS_H_
