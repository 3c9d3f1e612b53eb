// Jinja's tests: {{ value is name(argument) }}.
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/chat/jinja/arguments.h"
#include "common/chat/jinja/error.h"
#include "common/chat/jinja/filters.h"
#include "common/chat/jinja/operators.h"
#include "common/chat/jinja/print.h"

namespace espalier::jinja {
namespace {

// Tests without arguments.
template <bool (*kIs)(Interpreter&, const Value&)>
bool Plain(Interpreter& in, const Value& subject, CallArguments given) {
  const Arguments arguments("test", "", std::move(given));
  return kIs(in, subject);
}

bool Remainder(Interpreter& in, const Value& subject, Int divisor, Int rest) {
  return Equal(in.budget(),
               Arithmetic(in, "%", subject, Value::Integer(divisor)),
               Value::Integer(rest));
}

bool IsOdd(Interpreter& in, const Value& v) { return Remainder(in, v, 2, 1); }
bool IsEven(Interpreter& in, const Value& v) { return Remainder(in, v, 2, 0); }
bool IsDefined(Interpreter&, const Value& v) { return !v.IsUndefined(); }
bool IsNotDefined(Interpreter&, const Value& v) { return v.IsUndefined(); }
// Looked up as a key, so what no key can be is an error.
bool IsFilter(Interpreter& in, const Value& v) {
  HashOf(in.budget(), v);
  return v.IsText() && FindFilter(ToUtf8(Str(in, v))) != nullptr;
}
bool IsTest(Interpreter& in, const Value& v) {
  HashOf(in.budget(), v);
  return v.IsText() && FindTest(ToUtf8(Str(in, v))) != nullptr;
}
bool IsNoneValue(Interpreter&, const Value& v) { return v.IsNone(); }
bool IsBoolean(Interpreter&, const Value& v) { return v.IsBool(); }
bool IsFalse(Interpreter&, const Value& v) {
  return v.IsBool() && !v.boolean();
}
bool IsTrueValue(Interpreter&, const Value& v) {
  return v.IsBool() && v.boolean();
}
bool IsInteger(Interpreter&, const Value& v) { return v.IsInt(); }
bool IsReal(Interpreter&, const Value& v) { return v.IsFloat(); }
bool IsLowerCase(Interpreter& in, const Value& v) {
  return IsLowerText(Str(in, v));
}
bool IsUpperCase(Interpreter& in, const Value& v) {
  return IsUpperText(Str(in, v));
}
bool IsString(Interpreter&, const Value& v) { return v.IsText(); }
bool IsMapping(Interpreter&, const Value& v) { return v.IsDict(); }
bool IsNumberValue(Interpreter&, const Value& v) { return v.IsNumber(); }
bool IsSequenceValue(Interpreter&, const Value& v) {
  return v.IsText() || v.IsSequence() || v.IsDict() ||
         (v.IsObject() && v.object()->HasItems());
}
bool IsIterable(Interpreter& in, const Value& v) {
  return in.IterateOrNull(v) != nullptr;
}
bool IsCallable(Interpreter&, const Value& v) {
  // Undefined has a method that raises.
  return v.IsUndefined() || (v.IsObject() && v.object()->IsCallable());
}
bool IsEscaped(Interpreter&, const Value& v) { return v.IsMarkup(); }

bool DivisibleBy(Interpreter& in, const Value& subject, CallArguments given) {
  const Arguments arguments("divisibleby", "num", std::move(given));
  return Equal(in.budget(), Arithmetic(in, "%", subject, arguments.At(0)),
               Value::Integer(0));
}

// Texts and numbers that are equal may be two objects in Python; those that
// templates ask about are constants.
bool SameAs(Interpreter& in, const Value& subject, CallArguments given) {
  const Arguments arguments("sameas", "other", std::move(given));
  const Value& other = arguments.At(0);
  return TypeName(subject) == TypeName(other) &&
         Equal(in.budget(), subject, other);
}

bool In(Interpreter& in, const Value& subject, CallArguments given) {
  const Arguments arguments("in", "seq", std::move(given));
  return Contains(in, arguments.At(0), subject);
}

template <const char* kOperator>
bool Compared(Interpreter& in, const Value& subject, CallArguments given) {
  const Arguments arguments("comparison", "other /", std::move(given));
  return Holds(in, kOperator, subject, arguments.At(0));
}
constexpr char kEq[] = "==";
constexpr char kNe[] = "!=";
constexpr char kGt[] = ">";
constexpr char kGe[] = ">=";
constexpr char kLt[] = "<";
constexpr char kLe[] = "<=";

constexpr std::pair<std::string_view, TestFunction> kTests[] = {
    {"!=", Compared<kNe>},
    {"<", Compared<kLt>},
    {"<=", Compared<kLe>},
    {"==", Compared<kEq>},
    {">", Compared<kGt>},
    {">=", Compared<kGe>},
    {"boolean", Plain<IsBoolean>},
    {"callable", Plain<IsCallable>},
    {"defined", Plain<IsDefined>},
    {"divisibleby", DivisibleBy},
    {"eq", Compared<kEq>},
    {"equalto", Compared<kEq>},
    {"escaped", Plain<IsEscaped>},
    {"even", Plain<IsEven>},
    {"false", Plain<IsFalse>},
    {"filter", Plain<IsFilter>},
    {"float", Plain<IsReal>},
    {"ge", Compared<kGe>},
    {"greaterthan", Compared<kGt>},
    {"gt", Compared<kGt>},
    {"in", In},
    {"integer", Plain<IsInteger>},
    {"iterable", Plain<IsIterable>},
    {"le", Compared<kLe>},
    {"lessthan", Compared<kLt>},
    {"lower", Plain<IsLowerCase>},
    {"lt", Compared<kLt>},
    {"mapping", Plain<IsMapping>},
    {"ne", Compared<kNe>},
    {"none", Plain<IsNoneValue>},
    {"number", Plain<IsNumberValue>},
    {"odd", Plain<IsOdd>},
    {"sameas", SameAs},
    {"sequence", Plain<IsSequenceValue>},
    {"string", Plain<IsString>},
    {"test", Plain<IsTest>},
    {"true", Plain<IsTrueValue>},
    {"undefined", Plain<IsNotDefined>},
    {"upper", Plain<IsUpperCase>},
};

}  // namespace

TestFunction FindTest(std::string_view name) {
  for (const auto& [known, test] : kTests) {
    if (known == name) return test;
  }
  return nullptr;
}

}  // namespace espalier::jinja
