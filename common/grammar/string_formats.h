#ifndef ESPALIER_COMMON_GRAMMAR_STRING_FORMATS_H_
#define ESPALIER_COMMON_GRAMMAR_STRING_FORMATS_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "common/grammar/expression.h"

namespace espalier::grammar {

// Formats of JSON schemas.

// Returns whether the format is known: one of strings, one of numbers, or one
// that nothing can check ("password").
bool IsKnownFormat(absl::string_view format);

// Returns the strings of a format; null: it is none of strings, or says
// nothing.
ExpressionPtr FormatOf(absl::string_view format);

// The bounds of a format of integers ("int32").
struct IntegerFormat {
  int64_t least;
  uint64_t most;
};
std::optional<IntegerFormat> IntegerFormatOf(absl::string_view format);

}  // namespace espalier::grammar

#endif  // ESPALIER_COMMON_GRAMMAR_STRING_FORMATS_H_
