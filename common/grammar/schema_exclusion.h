#ifndef ESPALIER_COMMON_GRAMMAR_SCHEMA_EXCLUSION_H_
#define ESPALIER_COMMON_GRAMMAR_SCHEMA_EXCLUSION_H_

#include "absl/status/status.h"
#include "common/grammar/schema_document.h"

namespace espalier::grammar {

// Whether nothing that a grammar makes of one part of the schema's oneOf is
// valid under another, as far as can be seen: by types, constants, bounds,
// properties that one requires and the other forbids, and required properties
// of which this is true. INVALID_ARGUMENT names two that may overlap.
absl::Status CheckOneOf(SchemaDocument& document, const OrderedJson& schema);

}  // namespace espalier::grammar

#endif  // ESPALIER_COMMON_GRAMMAR_SCHEMA_EXCLUSION_H_
