// Patterns of strings, and lengths beside them.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/grammar/schema_builder.h"

namespace espalier::grammar {
namespace {

using Json = OrderedJson;
using Kind = Expression::Kind;

// Returns the number of repetitions of one character each in `expression`,
// outside other repetitions.
int64_t CountRuns(const Expression& expression) {
  if (expression.kind == Kind::kRepeat) {
    const Lengths part = LengthsOf(*expression.parts[0]);
    return part.least == 1 && part.most == 1 ? 1 : 2;
  }
  int64_t runs = 0;
  for (const ExpressionPtr& part : expression.parts) runs += CountRuns(*part);
  return runs;
}

// Returns the expression with at least and at most so many characters, of which
// `others` are not in its one run.
ExpressionPtr WithLength(const ExpressionPtr& expression, int64_t least,
                         int64_t most, int64_t others) {
  if (expression->kind == Kind::kSequence) {
    std::vector<ExpressionPtr> parts;
    for (const ExpressionPtr& part : expression->parts) {
      parts.push_back(WithLength(part, least, most, others));
    }
    return Sequence(std::move(parts));
  }
  if (expression->kind != Kind::kRepeat) return expression;
  const int64_t fewest = std::max(expression->least, least - others);
  int64_t largest = expression->most;
  if (most != Expression::kUnbounded) {
    largest = largest == Expression::kUnbounded
                  ? most - others
                  : std::min(largest, most - others);
  }
  if (largest != Expression::kUnbounded && largest < fewest) return Never();
  return Repeat(expression->parts[0], fewest, largest);
}

// Returns the texts of `expression` that are so long; null: it is not one run
// among texts of fixed lengths.
ExpressionPtr OfLength(const ExpressionPtr& expression, int64_t least,
                       int64_t most) {
  const Lengths lengths = LengthsOf(*expression);
  const bool is_long_enough = lengths.least >= least;
  const bool is_short_enough =
      most == Expression::kUnbounded ||
      (lengths.most != Expression::kUnbounded && lengths.most <= most);
  if (is_long_enough && is_short_enough) return expression;
  if (expression->kind == Kind::kChoice) {
    std::vector<ExpressionPtr> ways;
    for (const ExpressionPtr& part : expression->parts) {
      ExpressionPtr way = OfLength(part, least, most);
      if (way == nullptr) return nullptr;
      ways.push_back(std::move(way));
    }
    return Choice(std::move(ways));
  }
  if ((most != Expression::kUnbounded && lengths.least > most) ||
      (lengths.most != Expression::kUnbounded && lengths.most < least)) {
    return Never();
  }
  if (CountRuns(*expression) != 1) return nullptr;
  const bool is_flat =
      expression->kind == Kind::kRepeat ||
      std::all_of(expression->parts.begin(), expression->parts.end(),
                  [](const ExpressionPtr& part) {
                    const Lengths length = LengthsOf(*part);
                    return part->kind == Kind::kRepeat ||
                           length.least == length.most;
                  });
  if (!is_flat) return nullptr;
  int64_t others = 0;
  for (const ExpressionPtr& part : expression->parts) {
    if (expression->kind == Kind::kRepeat || part->kind == Kind::kRepeat) {
      continue;
    }
    others += LengthsOf(*part).least;
  }
  return WithLength(expression, least, most, others);
}

}  // namespace

absl::StatusOr<ExpressionPtr> SchemaBuilder::PatternStrings(
    const Schemas& alternative, int64_t least, int64_t most) {
  const Json& first = *With(alternative, "pattern");
  const auto& text = Member(first, "pattern")->get_ref<const std::string&>();
  for (const Json* schema : alternative) {
    const Json* other = Member(*schema, "pattern");
    if (other != nullptr && *other != text) {
      return document_.Error(*schema, "pattern",
                             "is not supported beside another pattern");
    }
  }
  ExpressionPtr strings = OfLength(document_.RegexOf(text).whole, least, most);
  if (strings != nullptr) return json_.StringOf(strings);
  const bool has_most = With(alternative, "maxLength") != nullptr;
  const char* keyword = has_most ? "maxLength" : "minLength";
  return document_.Error(
      *With(alternative, keyword), keyword,
      "is not supported beside this pattern: put the length into it");
}

}  // namespace espalier::grammar
