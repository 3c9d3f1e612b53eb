#ifndef ESPALIER_COMMON_GRAMMAR_SCHEMA_VALUES_H_
#define ESPALIER_COMMON_GRAMMAR_SCHEMA_VALUES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "common/grammar/number_range.h"
#include "common/grammar/schema_document.h"

namespace espalier::grammar {

// Types of JSON values, as bits.
namespace types {
inline constexpr uint8_t kNull = 1;
inline constexpr uint8_t kBoolean = 2;
inline constexpr uint8_t kObject = 4;
inline constexpr uint8_t kArray = 8;
inline constexpr uint8_t kString = 16;
inline constexpr uint8_t kInteger = 32;   // 3 and 3.0
inline constexpr uint8_t kFraction = 64;  // the other numbers
inline constexpr uint8_t kNumber = kInteger | kFraction;
inline constexpr uint8_t kAll = 127;
}  // namespace types

// Return the types that a well-formed `type` keyword names, and the type of a
// value.
uint8_t TypesOf(const OrderedJson& type);
uint8_t TypeOfValue(const OrderedJson& value);

// Returns a number as JSON parsers read it: an integer exactly, others as a
// double. nullopt: as ParseDecimal.
std::optional<Decimal> DecimalOf(const OrderedJson& number);

// Compares like JSON schemas: 1 is 1.0, and members have no order.
bool AreEqual(const OrderedJson& a, const OrderedJson& b);

// Returns what holds for the item at `index` of an array, by items, prefixItems
// and additionalItems; null: nothing does.
const OrderedJson* ItemSchema(const OrderedJson& schema, size_t index);

// Returns whether a value is valid under a schema of the document. Formats of
// strings count.
bool IsValid(const SchemaDocument& document, const OrderedJson& schema,
             const OrderedJson& value);

}  // namespace espalier::grammar

#endif  // ESPALIER_COMMON_GRAMMAR_SCHEMA_VALUES_H_
