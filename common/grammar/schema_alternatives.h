#ifndef ESPALIER_COMMON_GRAMMAR_SCHEMA_ALTERNATIVES_H_
#define ESPALIER_COMMON_GRAMMAR_SCHEMA_ALTERNATIVES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/grammar/number_range.h"
#include "common/grammar/schema_document.h"

namespace espalier::grammar {

// Schemas that hold together, in the order in which the document has them. All
// are of one document. Empty: anything is valid.
using Schemas = std::vector<const OrderedJson*>;

// Resolves the schemas that stand for one another: a value is valid under one
// of these, by the keywords of its schemas other than $ref, allOf, anyOf, oneOf
// and dependencies. (That parts of a oneOf exclude one another is for
// CheckOneOf.) No schema is Boolean. Empty: nothing is valid. INVALID_ARGUMENT:
// there are too many.
absl::StatusOr<std::vector<Schemas>> AlternativesOf(SchemaDocument& document,
                                                    const Schemas& schemas);

// These functions say what the keywords of an alternative mean together.

// Returns the types that `type` declares.
uint8_t DeclaredTypes(const Schemas& alternative);
// Returns the types that other keywords imply where there is no `type`:
// properties want an object.
uint8_t MeantTypes(const Schemas& alternative);
// Returns the values of const or enum that are valid under all; nullopt: there
// is neither.
std::optional<std::vector<OrderedJson>> ValuesOf(const SchemaDocument& document,
                                                 const Schemas& alternative);
// Returns the schema that has the keyword, the first one; null: none.
const OrderedJson* With(const Schemas& alternative, const char* keyword);
// Returns the largest of a least number, or the smallest of a most.
int64_t LargestOf(const Schemas& alternative, const char* keyword,
                  int64_t fallback);
int64_t SmallestOf(const Schemas& alternative, const char* keyword,
                   int64_t fallback);
// Returns the bounds and multiples of numbers. multiple_of is 0 if there is
// none that a grammar can express.
NumberRange RangeOf(const Schemas& alternative, bool is_integer);

// Returns what holds for a property; a part that is `false` forbids it.
Schemas PropertySchemas(const SchemaDocument& document,
                        const Schemas& alternative, const std::string& name);
bool Forbids(const Schemas& schemas);
// Names that `required` has, in order.
std::vector<std::string> RequiredNames(const Schemas& alternative);

}  // namespace espalier::grammar

#endif  // ESPALIER_COMMON_GRAMMAR_SCHEMA_ALTERNATIVES_H_
