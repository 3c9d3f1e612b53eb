#include "common/chat/jinja/operators.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/chat/jinja/error.h"
#include "common/chat/jinja/format.h"
#include "common/chat/jinja/markup.h"
#include "common/chat/jinja/numbers.h"
#include "common/chat/jinja/object.h"

namespace espalier::jinja {
namespace {

[[noreturn]] void Unsupported(std::string_view op, const Value& a,
                              const Value& b) {
  std::string shown(op);
  if (op == "**") shown = "** or pow()";
  throw Error(absl::StrCat("unsupported operand type(s) for ", shown, ": '",
                           TypeName(a), "' and '", TypeName(b), "'"));
}

Value AddTexts(Interpreter& interpreter, const Value& a, const Value& b) {
  if (a.IsMarkup() || b.IsMarkup()) {
    Characters sum = EscapeUnlessMarkup(interpreter, a);
    sum += EscapeUnlessMarkup(interpreter, b);
    return MakeText(interpreter.budget(), std::move(sum), /*markup=*/true);
  }
  Characters sum;
  interpreter.budget().SpendCharacters(a.characters().size() +
                                       b.characters().size());
  sum.reserve(a.characters().size() + b.characters().size());
  sum.append(a.characters()).append(b.characters());
  return MakeText(interpreter.budget(), std::move(sum));
}

Value AddValues(Interpreter& interpreter, const Value& a, const Value& b) {
  if (a.IsText() && b.IsText()) return AddTexts(interpreter, a, b);
  const bool sequences =
      (a.IsList() && b.IsList()) || (a.IsTuple() && b.IsTuple());
  if (sequences) {
    std::vector<Value> sum = a.items();
    sum.insert(sum.end(), b.items().begin(), b.items().end());
    return a.IsList() ? MakeList(interpreter.budget(), std::move(sum))
                      : MakeTuple(interpreter.budget(), std::move(sum));
  }
  const std::string type = a.IsText()    ? "str"
                           : a.IsList()  ? "list"
                           : a.IsTuple() ? "tuple"
                                         : "";
  if (type.empty()) Unsupported("+", a, b);
  throw Error(absl::StrCat("can only concatenate ", type, " (not \"",
                           TypeName(b), "\") to ", type));
}

Value Repeat(Interpreter& interpreter, const Value& value, Int times) {
  const size_t size =
      value.IsText() ? value.characters().size() : value.items().size();
  if (times < 0 || size == 0) times = 0;
  constexpr Int kMax = Int{1} << 40;
  const auto count = static_cast<size_t>(std::min(times, kMax));
  Budget& budget = interpreter.budget();
  if (value.IsText()) {
    budget.SpendCharacters(size * count);
    Characters text;
    for (size_t i = 0; i < count; ++i) text.append(value.characters());
    return MakeText(budget, std::move(text), value.IsMarkup());
  }
  budget.SpendValues(size * count / 8);
  std::vector<Value> items;
  for (size_t i = 0; i < count; ++i) {
    items.insert(items.end(), value.items().begin(), value.items().end());
  }
  return value.IsList() ? MakeList(budget, std::move(items))
                        : MakeTuple(budget, std::move(items));
}

Value MultiplyValues(Interpreter& interpreter, const Value& a, const Value& b) {
  const auto repeatable = [](const Value& value) {
    return value.IsText() || value.IsSequence();
  };
  if (repeatable(a) && b.IsIntegral()) {
    return Repeat(interpreter, a, b.integer());
  }
  if (repeatable(b) && a.IsIntegral()) {
    return Repeat(interpreter, b, a.integer());
  }
  if (repeatable(a) || repeatable(b)) {
    throw Error(absl::StrCat("can't multiply sequence by non-int of type '",
                             TypeName(repeatable(a) ? b : a), "'"));
  }
  Unsupported("*", a, b);
}

Value Integers(std::string_view op, Int a, Int b) {
  if (op == "+") return Value::Integer(Add(a, b));
  if (op == "-") return Value::Integer(Subtract(a, b));
  if (op == "*") return Value::Integer(Multiply(a, b));
  if (op == "//") return Value::Integer(FloorDivide(a, b));
  return Value::Integer(Modulo(a, b));
}

Value Reals(std::string_view op, double a, double b) {
  if (op == "+") return Value::Float(a + b);
  if (op == "-") return Value::Float(a - b);
  if (op == "*") return Value::Float(a * b);
  if (op == "//") return Value::Float(FloorDivide(a, b));
  return Value::Float(Modulo(a, b));
}

Value Numbers(std::string_view op, const Value& a, const Value& b) {
  if (op == "**") return Power(a, b);
  if (op == "/") {
    if (ToDouble(b) == 0) {
      const bool real = a.IsFloat() || b.IsFloat();
      throw Error(real ? "float division by zero" : "division by zero");
    }
    return Value::Float(ToDouble(a) / ToDouble(b));
  }
  if (a.IsIntegral() && b.IsIntegral()) {
    return Integers(op, a.integer(), b.integer());
  }
  return Reals(op, ToDouble(a), ToDouble(b));
}

// -1, 0, 1; 2: not ordered (a NaN is one of them).
int CompareNumbers(const Value& a, const Value& b) {
  if (a.IsIntegral() && b.IsIntegral()) {
    return a.integer() < b.integer() ? -1 : a.integer() > b.integer() ? 1 : 0;
  }
  const auto x = a.IsFloat() ? static_cast<long double>(a.real())
                             : static_cast<long double>(a.integer());
  const auto y = b.IsFloat() ? static_cast<long double>(b.real())
                             : static_cast<long double>(b.integer());
  if (std::isnan(x) || std::isnan(y)) return 2;
  return x < y ? -1 : x > y ? 1 : 0;
}

bool Satisfies(std::string_view op, int order) {
  if (order == 2) return false;
  if (op == "<") return order < 0;
  if (op == "<=") return order <= 0;
  return op == ">" ? order > 0 : order >= 0;
}

bool Ordered(Interpreter& interpreter, std::string_view op, const Value& a,
             const Value& b) {
  RequireDefined(a);
  RequireDefined(b);
  if (a.IsNumber() && b.IsNumber()) return Satisfies(op, CompareNumbers(a, b));
  if (a.IsText() && b.IsText()) {
    interpreter.budget().SpendCharacters(
        std::min(a.characters().size(), b.characters().size()));
    return Satisfies(op, Compare(a.characters(), b.characters()));
  }
  const bool sequences =
      (a.IsList() && b.IsList()) || (a.IsTuple() && b.IsTuple());
  if (!sequences) {
    throw Error(absl::StrCat("'", std::string(op),
                             "' not supported between instances of '",
                             TypeName(a), "' and '", TypeName(b), "'"));
  }
  const size_t common = std::min(a.items().size(), b.items().size());
  for (size_t i = 0; i < common; ++i) {
    if (!Equal(interpreter.budget(), a.items()[i], b.items()[i])) {
      return Ordered(interpreter, op, a.items()[i], b.items()[i]);
    }
  }
  const size_t left = a.items().size();
  const size_t right = b.items().size();
  return Satisfies(op, left < right ? -1 : left > right ? 1 : 0);
}

}  // namespace

std::optional<Int> LengthOf(const Value& value) {
  if (value.IsText()) return static_cast<Int>(value.characters().size());
  if (value.IsSequence()) return static_cast<Int>(value.items().size());
  if (value.IsDict()) return static_cast<Int>(value.dict().items().size());
  if (value.IsUndefined()) return 0;
  return value.IsObject() ? value.object()->Length() : std::nullopt;
}

Int Length(const Value& value) {
  const std::optional<Int> length = LengthOf(value);
  if (length.has_value()) return *length;
  throw Error(
      absl::StrCat("object of type '", TypeName(value), "' has no len()"));
}

void RequireDefined(const Value& value) {
  if (value.IsUndefined()) throw Error(value.undefined());
}

Value Arithmetic(Interpreter& interpreter, std::string_view op, const Value& a,
                 const Value& b) {
  if (op == "%" && a.IsText()) {
    return FormatPercent(interpreter, a, b);
  }
  RequireDefined(a);
  RequireDefined(b);
  if (a.IsNumber() && b.IsNumber()) return Numbers(op, a, b);
  if (op == "+") return AddValues(interpreter, a, b);
  if (op == "*") return MultiplyValues(interpreter, a, b);
  Unsupported(op, a, b);
}

Value Negative(const Value& value) {
  RequireDefined(value);
  if (value.IsFloat()) return Value::Float(-value.real());
  if (value.IsIntegral()) return Value::Integer(Subtract(0, value.integer()));
  throw Error(
      absl::StrCat("bad operand type for unary -: '", TypeName(value), "'"));
}

Value Positive(const Value& value) {
  RequireDefined(value);
  if (value.IsFloat()) return value;
  if (value.IsIntegral()) return Value::Integer(value.integer());
  throw Error(
      absl::StrCat("bad operand type for unary +: '", TypeName(value), "'"));
}

bool Less(Interpreter& interpreter, const Value& a, const Value& b) {
  interpreter.budget().Spend(1);
  return Ordered(interpreter, "<", a, b);
}

bool Holds(Interpreter& interpreter, std::string_view op, const Value& a,
           const Value& b) {
  if (op == "==") return Equal(interpreter.budget(), a, b);
  if (op == "!=") return !Equal(interpreter.budget(), a, b);
  if (op == "in") return Contains(interpreter, b, a);
  if (op == "not in") return !Contains(interpreter, b, a);
  return Ordered(interpreter, op, a, b);
}

bool Contains(Interpreter& interpreter, const Value& container,
              const Value& item) {
  if (container.IsText()) {
    if (!item.IsText()) {
      throw Error(
          absl::StrCat("'in <string>' requires string as left operand, not ",
                       TypeName(item)));
    }
    return Find(interpreter, container.characters(), item.characters()) !=
           kNowhere;
  }
  if (container.IsDict())
    return container.dict().Find(interpreter.budget(), item) != nullptr;
  IteratorPtr iterator;
  if (!container.IsNone() && !container.IsNumber()) {
    iterator = interpreter.IterateOrNull(container);
  }
  if (iterator == nullptr) {
    throw Error(absl::StrCat("argument of type '", TypeName(container),
                             "' is not iterable"));
  }
  for (auto next = iterator->Next(); next.has_value();
       next = iterator->Next()) {
    if (Equal(interpreter.budget(), *next, item)) return true;
  }
  return false;
}

size_t Find(Interpreter& interpreter, CharactersView text, CharactersView part,
            size_t from) {
  for (size_t at = from; at + part.size() <= text.size(); ++at) {
    size_t same = 0;
    while (same < part.size() && Bare(text[at + same]) == Bare(part[same])) {
      ++same;
    }
    if (same == part.size()) {
      interpreter.budget().SpendCharacters(at - from + same);
      return at;
    }
    // What is nearly found costs what was looked at.
    if (same > 1) interpreter.budget().SpendCharacters(same);
  }
  interpreter.budget().SpendCharacters(text.size() -
                                       std::min(from, text.size()));
  return kNowhere;
}

size_t FindLast(Interpreter& interpreter, CharactersView text,
                CharactersView part, size_t end) {
  if (part.size() > end) return kNowhere;
  for (size_t at = end - part.size() + 1; at-- > 0;) {
    size_t same = 0;
    while (same < part.size() && Bare(text[at + same]) == Bare(part[same])) {
      ++same;
    }
    if (same == part.size()) {
      interpreter.budget().SpendCharacters(end - at);
      return at;
    }
    if (same > 1) interpreter.budget().SpendCharacters(same);
  }
  interpreter.budget().SpendCharacters(end);
  return kNowhere;
}

}  // namespace espalier::jinja
