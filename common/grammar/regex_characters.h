#ifndef ESPALIER_COMMON_GRAMMAR_REGEX_CHARACTERS_H_
#define ESPALIER_COMMON_GRAMMAR_REGEX_CHARACTERS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/grammar/code_points.h"
#include "common/grammar/regex.h"

namespace espalier::grammar {

// Returns what . matches.
CodePoints AnyButLineEnds();

// Parses the escape at text[at], a backslash, and moves `at` behind it. In a
// class, \b is a backspace. INVALID_ARGUMENT: it is none, or not supported.
absl::StatusOr<CodePoints> ParseEscape(absl::Span<const uint32_t> text,
                                       size_t& at, RegexClasses classes,
                                       bool in_class);

// Parses the class at text[at], a bracket, and moves `at` behind it.
absl::StatusOr<CodePoints> ParseClass(absl::Span<const uint32_t> text,
                                      size_t& at, RegexClasses classes);

}  // namespace espalier::grammar

#endif  // ESPALIER_COMMON_GRAMMAR_REGEX_CHARACTERS_H_
