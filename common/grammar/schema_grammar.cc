#include "common/grammar/schema_grammar.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/grammar/number_range.h"
#include "common/grammar/schema_builder.h"
#include "common/grammar/schema_exclusion.h"
#include "common/grammar/schema_values.h"
#include "common/grammar/string_formats.h"
#include "common/grammar/work_budget.h"

namespace espalier::grammar {
namespace {

using Json = OrderedJson;
using Kind = Expression::Kind;

constexpr int64_t kMaxRules = 10'000;
constexpr int64_t kWorkOfRule = 100;

// Returns whether what it says of members and items is in what it refers to.
bool OnlyRefers(const Json& schema) {
  if (Member(schema, "$ref") == nullptr) return false;
  for (const char* keyword :
       {"allOf", "anyOf", "oneOf", "properties", "patternProperties",
        "additionalProperties", "items", "prefixItems", "dependencies",
        "dependentSchemas"}) {
    if (Member(schema, keyword) != nullptr) return false;
  }
  return true;
}

// Returns whether texts can be made of `expression`, by what is known of rules.
bool IsProductive(const Expression& expression,
                  const std::vector<bool>& productive) {
  const auto is_productive = [&](const ExpressionPtr& part) {
    return IsProductive(*part, productive);
  };
  switch (expression.kind) {
    case Kind::kText:
    case Kind::kClass:
      return true;
    case Kind::kRule:
      return productive[static_cast<size_t>(expression.rule)];
    case Kind::kRepeat:
      return expression.least == 0 || is_productive(expression.parts[0]);
    case Kind::kSequence:
      return std::all_of(expression.parts.begin(), expression.parts.end(),
                         is_productive);
    case Kind::kChoice:
      return std::any_of(expression.parts.begin(), expression.parts.end(),
                         is_productive);
  }
  return false;
}

// `expression` without rules that no text can be made of, and what needs them.
ExpressionPtr Pruned(const ExpressionPtr& expression,
                     const std::vector<bool>& productive) {
  const auto parts = [&] {
    std::vector<ExpressionPtr> pruned;
    for (const ExpressionPtr& part : expression->parts) {
      pruned.push_back(Pruned(part, productive));
    }
    return pruned;
  };
  switch (expression->kind) {
    case Kind::kText:
    case Kind::kClass:
      return expression;
    case Kind::kRule:
      return productive[static_cast<size_t>(expression->rule)] ? expression
                                                               : Never();
    case Kind::kRepeat:
      return Repeat(Pruned(expression->parts[0], productive), expression->least,
                    expression->most);
    case Kind::kSequence:
      return Sequence(parts());
    case Kind::kChoice:
      return Choice(parts());
  }
  return expression;
}

// Removes expressions after which nothing may follow: a text would end before
// its time.
void Prune(RuleSet& rules) {
  std::vector<bool> productive(rules.rules.size());
  for (bool changes = true; std::exchange(changes, false);) {
    SpendWork(kWorkOfRule * std::ssize(productive));
    for (size_t i = 0; i < productive.size(); ++i) {
      if (productive[i] || !IsProductive(*rules.rules[i], productive)) continue;
      productive[i] = true;
      changes = true;
    }
  }
  for (ExpressionPtr& rule : rules.rules) rule = Pruned(rule, productive);
}

}  // namespace

absl::StatusOr<RuleSet> SchemaBuilder::Build() {
  const ExpressionPtr root = ValueOf({&document_.root()});
  json_.rules().rules[0] = root;
  while (!open_.empty()) {
    const auto [schemas, number] = std::move(open_.front());
    open_.pop_front();
    SpendWork(kWorkOfRule);
    if (std::ssize(json_.rules().rules) > kMaxRules) {
      return absl::InvalidArgumentError(
          absl::StrCat("needs a grammar of more than ", kMaxRules, " rules"));
    }
    ASSIGN_OR_RETURN(ExpressionPtr body, Body(schemas));
    json_.rules().rules[static_cast<size_t>(number)] = std::move(body);
  }
  Prune(json_.rules());
  if (IsNever(*json_.rules().rules[0])) {
    return absl::InvalidArgumentError(
        "no value is valid under it, or none that ends");
  }
  return json_.rules();
}

ExpressionPtr SchemaBuilder::ValueOf(const Schemas& schemas) {
  Schemas said;
  for (const Json* schema : schemas) {
    const bool says_nothing =
        schema->is_boolean() ? schema->get<bool>() : schema->empty();
    const bool is_there =
        std::find(said.begin(), said.end(), schema) != said.end();
    if (!says_nothing && !is_there) said.push_back(schema);
  }
  if (said.empty()) return json_.AnyValue();
  Schemas key = said;
  std::sort(key.begin(), key.end());
  const auto [known, is_new] = known_.try_emplace(std::move(key), 0);
  if (is_new) {
    known->second = json_.rules().Add(Never());
    open_.emplace_back(std::move(said), known->second);
  }
  return Rule(known->second);
}

absl::StatusOr<ExpressionPtr> SchemaBuilder::Body(const Schemas& schemas) {
  ASSIGN_OR_RETURN(const auto alternatives, AlternativesOf(document_, schemas));
  std::vector<ExpressionPtr> ways;
  for (const Schemas& alternative : alternatives) {
    RETURN_IF_ERROR(CheckWhole(schemas, alternative));
    ASSIGN_OR_RETURN(ways.emplace_back(), Values(alternative));
  }
  return Choice(std::move(ways));
}

absl::Status SchemaBuilder::CheckWhole(const Schemas& schemas,
                                       const Schemas& alternative) {
  // Whether the schemas so far only refer to the next one.
  bool refers = schemas.size() == 1;
  for (const Json* schema : alternative) {
    if (Member(*schema, "oneOf") != nullptr) {
      RETURN_IF_ERROR(CheckOneOf(document_, *schema, alternative));
    }
    for (const char* keyword : {"unevaluatedProperties", "unevaluatedItems"}) {
      const Json* value = Member(*schema, keyword);
      if (value == nullptr || value->get<bool>() || refers) continue;
      return document_.Error(
          *schema, keyword,
          "is supported only where no other schema holds beside this one");
    }
    refers = refers && OnlyRefers(*schema);
  }
  return absl::OkStatus();
}

absl::StatusOr<ExpressionPtr> SchemaBuilder::Values(
    const Schemas& alternative) {
  if (const auto values = ValuesOf(document_, alternative)) {
    return Literals(alternative, *values);
  }
  const uint8_t wanted = MeantTypes(alternative);
  std::vector<ExpressionPtr> ways;
  if ((wanted & types::kObject) != 0) {
    ASSIGN_OR_RETURN(ways.emplace_back(), ObjectsOf(*this, alternative));
  }
  if ((wanted & types::kArray) != 0) {
    ASSIGN_OR_RETURN(ways.emplace_back(), ArraysOf(*this, alternative));
  }
  if ((wanted & types::kString) != 0) {
    ASSIGN_OR_RETURN(ways.emplace_back(), Strings(alternative));
  }
  if ((wanted & types::kNumber) != 0) {
    ASSIGN_OR_RETURN(
        ways.emplace_back(),
        Numbers(alternative, (wanted & types::kNumber) == types::kInteger));
  }
  if ((wanted & types::kBoolean) != 0) {
    ways.push_back(Choice({Text("true"), Text("false")}));
  }
  if ((wanted & types::kNull) != 0) ways.push_back(Text("null"));
  return Choice(std::move(ways));
}

absl::StatusOr<ExpressionPtr> SchemaBuilder::Literals(
    const Schemas& alternative, const std::vector<Json>& values) {
  for (const char* keyword : {"unevaluatedProperties", "unevaluatedItems"}) {
    if (const Json* schema = With(alternative, keyword)) {
      return document_.Error(*schema, keyword,
                             "is not supported beside const or enum");
    }
  }
  std::vector<ExpressionPtr> ways;
  for (const Json& value : values) ways.push_back(json_.Literal(value));
  return Choice(std::move(ways));
}

absl::StatusOr<ExpressionPtr> SchemaBuilder::Numbers(const Schemas& alternative,
                                                     bool is_integer) {
  const NumberRange range = RangeOf(alternative, is_integer);
  if (range.multiple_of == 0) {
    return document_.Error(*With(alternative, "multipleOf"), "multipleOf",
                           "is supported for integers up to 10^9 only");
  }
  const bool is_free = !range.least && !range.most && range.multiple_of == 1;
  if (is_free) return range.is_integer ? AnyInteger() : AnyNumber();
  ExpressionPtr numbers = NumbersIn(range, json_.rules());
  if (numbers != nullptr) return numbers;
  if (const Json* schema = With(alternative, "multipleOf")) {
    return document_.Error(
        *schema, "multipleOf",
        absl::StrCat("above ", kMaxMultipleOf,
                     " needs a minimum and a maximum "
                     "with at most ",
                     kMaxListedMultiples, " multiples between them"));
  }
  for (const char* keyword :
       {"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"}) {
    if (const Json* schema = With(alternative, keyword)) {
      return document_.Error(*schema, keyword,
                             absl::StrCat("has more than ", kMaxRangeDigits,
                                          " digits before the point"));
    }
  }
  return absl::InvalidArgumentError("a bound has too many digits");
}

absl::StatusOr<ExpressionPtr> SchemaBuilder::Strings(
    const Schemas& alternative) {
  const int64_t least = LargestOf(alternative, "minLength", 0);
  const int64_t most =
      SmallestOf(alternative, "maxLength", Expression::kUnbounded);
  if (most != Expression::kUnbounded && most < least) return Never();
  const Json* pattern = With(alternative, "pattern");
  const Json* format = nullptr;
  for (const Json* schema : alternative) {
    const Json* name = Member(*schema, "format");
    if (name == nullptr || FormatOf(name->get<std::string>()) == nullptr) {
      continue;
    }
    if (format != nullptr && *Member(*format, "format") != *name) {
      return document_.Error(*schema, "format",
                             "is not supported beside another format");
    }
    format = schema;
  }
  if (format == nullptr && pattern == nullptr) {
    return json_.StringOfLength(least, most);
  }
  if (format == nullptr) return PatternStrings(alternative, least, most);
  if (pattern != nullptr) {
    return document_.Error(*pattern, "pattern",
                           "is not supported beside format");
  }
  const ExpressionPtr strings =
      FormatOf(Member(*format, "format")->get<std::string>());
  const Lengths lengths = LengthsOf(*strings);
  for (const char* keyword : {"minLength", "maxLength"}) {
    const bool is_sure = keyword[1] == 'i'
                             ? lengths.least >= least
                             : most == Expression::kUnbounded ||
                                   (lengths.most != Expression::kUnbounded &&
                                    lengths.most <= most);
    if (is_sure) continue;
    return document_.Error(*With(alternative, keyword), keyword,
                           "is not supported beside format");
  }
  return json_.StringOf(strings);
}

absl::StatusOr<RuleSet> SchemaGrammar(absl::string_view schema, bool compact) {
  ASSIGN_OR_RETURN(const auto document, SchemaDocument::Parse(schema));
  return SchemaBuilder(*document, compact).Build();
}

RuleSet AnyObjectGrammar(bool compact) {
  JsonGrammar json(compact);
  json.rules().rules[0] = json.AnyObject();
  return json.rules();
}

}  // namespace espalier::grammar
