#ifndef ESPALIER_COMMON_GRAMMAR_REGEX_H_
#define ESPALIER_COMMON_GRAMMAR_REGEX_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/grammar/expression.h"

namespace espalier::grammar {

// A regular expression in JavaScript's syntax, without flags.
struct Regex {
  // The texts that match as a whole. ^ and $ stand at its ends only.
  ExpressionPtr whole = nullptr;
  // The same, with these two where they stand.
  ExpressionPtr with_anchors = nullptr;
};

// Says what \w, \d, \s and their opposites mean.
enum class RegexClasses {
  kJavaScript,
  // Characters that are (or are not) such both in JavaScript and in Python,
  // whose validators read patterns of JSON schemas otherwise.
  kCommon,
};

// INVALID_ARGUMENT says what is wrong, or is not supported: lookaround,
// backreferences, \b, \p, and ^ or $ elsewhere.
absl::StatusOr<Regex> ParseRegex(absl::string_view text, RegexClasses classes);

// Returns whether some part of `text`, which is UTF-8, matches.
bool Finds(const Regex& regex, absl::string_view text);
// Returns whether all of it matches `whole`, which has no rules.
bool Matches(const ExpressionPtr& whole, absl::string_view text);

}  // namespace espalier::grammar

#endif  // ESPALIER_COMMON_GRAMMAR_REGEX_H_
