#ifndef ESPALIER_COMMON_GRAMMAR_NUMBER_RANGE_H_
#define ESPALIER_COMMON_GRAMMAR_NUMBER_RANGE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "common/grammar/expression.h"

namespace espalier::grammar {

// A number as it is written, without an exponent.
struct Decimal {
  bool is_negative = false;
  std::string whole = "0";    // digits; without zeros before others
  std::string fraction = "";  // digits; without zeros after others

  bool is_zero() const { return whole == "0" && fraction.empty(); }
};

// Reads the text of a JSON number. nullopt: it has more than 40 digits before
// or after the point.
std::optional<Decimal> ParseDecimal(absl::string_view text);

// Returns whether a < b.
bool Less(const Decimal& a, const Decimal& b);

struct Bound {
  Decimal value = {};
  bool is_exclusive = false;
};

struct NumberRange {
  std::optional<Bound> least = {};
  std::optional<Bound> most = {};
  // Integers only, which are multiples of this.
  bool is_integer = false;
  int64_t multiple_of = 1;
};

// Multiples above this need bounds with few multiples between them.
inline constexpr int64_t kMaxMultipleOf = 64;
inline constexpr int64_t kMaxListedMultiples = 1000;
// Digits before the point, and after it, of numbers in a range.
inline constexpr int64_t kMaxRangeDigits = 18;

// Returns the numbers of a range as JSON. They have at most kMaxRangeDigits
// digits, so they are exact in what reads them: integers as int64, others as
// doubles. IsNever: there is none. Null: multiple_of is too large for these
// bounds, or a bound has too many digits before the point. May add rules to
// `rules`.
ExpressionPtr NumbersIn(const NumberRange& range, RuleSet& rules);

// Any JSON number, or integer, with bounded digits.
ExpressionPtr AnyNumber();
ExpressionPtr AnyInteger();

}  // namespace espalier::grammar

#endif  // ESPALIER_COMMON_GRAMMAR_NUMBER_RANGE_H_
