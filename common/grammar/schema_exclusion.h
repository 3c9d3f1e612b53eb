#ifndef ESPALIER_COMMON_GRAMMAR_SCHEMA_EXCLUSION_H_
#define ESPALIER_COMMON_GRAMMAR_SCHEMA_EXCLUSION_H_

#include "absl/status/status.h"
#include "common/grammar/schema_alternatives.h"
#include "common/grammar/schema_document.h"

namespace espalier::grammar {

// Checks that nothing that a grammar makes of `alternative`, which has a part
// of the schema's oneOf, is valid under another part, as far as can be seen: by
// types, constants, bounds, properties that one requires and the other forbids,
// and required properties of which this is true. INVALID_ARGUMENT: it may be.
absl::Status CheckOneOf(SchemaDocument& document, const OrderedJson& schema,
                        const Schemas& alternative);

}  // namespace espalier::grammar

#endif  // ESPALIER_COMMON_GRAMMAR_SCHEMA_EXCLUSION_H_
