#ifndef ESPALIER_COMMON_GRAMMAR_SCHEMA_GRAMMAR_H_
#define ESPALIER_COMMON_GRAMMAR_SCHEMA_GRAMMAR_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/grammar/expression.h"

namespace espalier::grammar {

// Returns the grammar of JSON texts that are valid under a JSON schema. Every
// text of the grammar is; not every valid text is in it:
//
// * Properties come in the schema's order. Those that it does not name come
//   last, and only if the schema says so, or names none. A name comes once.
// * Of an array with prefixItems, there are more items only if it says so.
// * Where no `type` is said, it is what other keywords are about.
// * `pattern` matches the whole string.
// * A number in bounds has no exponent.
//
// `compact` is JsonGrammar's. INVALID_ARGUMENT: the text is no schema, it
// has a keyword that is not supported, or nothing is valid; with the path.
// Spends work (work_budget.h).
absl::StatusOr<RuleSet> SchemaGrammar(absl::string_view schema, bool compact);

// Returns the grammar of any JSON object.
RuleSet AnyObjectGrammar(bool compact);

}  // namespace espalier::grammar

#endif  // ESPALIER_COMMON_GRAMMAR_SCHEMA_GRAMMAR_H_
