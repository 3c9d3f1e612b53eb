// Expressions of texts, and grammars of them: what schemas and regular
// expressions become before a library compiles them.
#ifndef ESPALIER_COMMON_GRAMMAR_EXPRESSION_H_
#define ESPALIER_COMMON_GRAMMAR_EXPRESSION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/grammar/code_points.h"

namespace espalier::grammar {

struct Expression;
using ExpressionPtr = std::shared_ptr<const Expression>;

// Immutable.
struct Expression {
  enum class Kind { kText, kClass, kSequence, kChoice, kRepeat, kRule };
  static constexpr int64_t kUnbounded = -1;

  Kind kind = Kind::kText;
  std::string text = {};                  // UTF-8; may be empty
  CodePoints characters = {};             // one of them
  std::vector<ExpressionPtr> parts = {};  // a choice of none matches nothing
  int64_t least = 0, most = 0;            // repeats of parts[0]
  int64_t rule = 0;                       // its number in the grammar
};

ExpressionPtr Text(absl::string_view text);
ExpressionPtr OneOf(CodePoints characters);
// Make a sequence and a choice. One part alone is the result itself. Sequences
// within sequences are joined, and empty texts within them are dropped.
ExpressionPtr Sequence(std::vector<ExpressionPtr> parts);
ExpressionPtr Choice(std::vector<ExpressionPtr> parts);
ExpressionPtr Repeat(ExpressionPtr part, int64_t least, int64_t most);
ExpressionPtr Optional(ExpressionPtr part);
ExpressionPtr Rule(int64_t number);
ExpressionPtr Never();
bool IsNever(const Expression& expression);

// `expression` with every text and class replaced by what `change` makes of
// it. Rules stay.
ExpressionPtr Mapped(
    const ExpressionPtr& expression,
    const std::function<ExpressionPtr(const Expression&)>& change);

// Its characters, at least and at most; nothing it has is a rule.
struct Lengths {
  int64_t least = 0;
  int64_t most = 0;  // kUnbounded
};
Lengths LengthsOf(const Expression& expression);

// Returns what a compiler makes of it, at most: its places, a repetition's
// counted as often as they may come, times the repeats of repetitions within
// repetitions, since a text may be at as many of these places at once. * and +
// count as 10. Saturates at kMaxAutomaton.
int64_t AutomatonOf(const Expression& expression);
inline constexpr int64_t kMaxAutomaton = 1'000'000;

// Rule 0 is the root.
struct RuleSet {
  std::vector<ExpressionPtr> rules;

  int64_t Add(ExpressionPtr rule);  // its number
  int64_t automaton() const;        // the sum; saturates
  // Returns the grammar as xgrammar reads it; the root is called "root".
  std::string ToEbnf() const;
};

}  // namespace espalier::grammar

#endif  // ESPALIER_COMMON_GRAMMAR_EXPRESSION_H_
