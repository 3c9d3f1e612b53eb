#include "common/chat/jinja/expressions.h"

#include "absl/strings/str_cat.h"
#include "common/chat/jinja/error.h"
#include "common/chat/jinja/members.h"
#include "common/chat/jinja/operators.h"
#include "common/chat/jinja/print.h"

namespace espalier::jinja {
namespace {

// Adds a dict's items to named arguments.
void AddNamed(Interpreter& interpreter, const Value& value,
              CallArguments& arguments) {
  if (!value.IsDict()) {
    throw Error(absl::StrCat("argument after ** must be a mapping, not ",
                             TypeName(value)));
  }
  for (const auto& [key, item] : value.dict().items()) {
    if (!key.IsText()) throw Error("keywords must be strings");
    interpreter.budget().SpendValue();
    std::string name = ToUtf8(key.characters());
    for (char32_t c : key.characters()) {
      arguments.names_from_input |= (c & kFromInput) != 0;
    }
    for (const auto& [known, ignored] : arguments.named) {
      if (known != name) continue;
      throw Error(absl::StrCat("got multiple values for keyword argument '",
                               name, "'"));
    }
    arguments.named.emplace_back(std::move(name), item);
  }
}

}  // namespace

Value Expression::Evaluate(Interpreter& interpreter) const {
  try {
    const Step step(interpreter.budget());
    return Run(interpreter);
  } catch (Error& error) {
    if (error.line == 0) error.line = line_;
    throw;
  }
}

CallArguments ArgumentList::Evaluate(Interpreter& interpreter) const {
  CallArguments arguments;
  for (const ExpressionPtr& expression : positional) {
    arguments.positional.push_back(expression->Evaluate(interpreter));
  }
  for (const auto& [name, expression] : named) {
    arguments.named.emplace_back(name, expression->Evaluate(interpreter));
  }
  if (more_positional != nullptr) {
    const Value more = more_positional->Evaluate(interpreter);
    for (Value& item : interpreter.Items(more)) {
      arguments.positional.push_back(std::move(item));
    }
  }
  if (more_named != nullptr) {
    AddNamed(interpreter, more_named->Evaluate(interpreter), arguments);
  }
  return arguments;
}

Value SequenceLiteral::Run(Interpreter& interpreter) const {
  std::vector<Value> items;
  items.reserve(items_.size());
  for (const ExpressionPtr& item : items_) {
    items.push_back(item->Evaluate(interpreter));
  }
  return MakeSequence(interpreter.budget(), std::move(items), kind_);
}

Value DictLiteral::Run(Interpreter& interpreter) const {
  Dict dict;
  for (const auto& [key, value] : items_) {
    Value evaluated = key->Evaluate(interpreter);
    dict.Set(interpreter.budget(), std::move(evaluated),
             value->Evaluate(interpreter));
  }
  return MakeDict(interpreter.budget(), std::move(dict));
}

Value Unary::Run(Interpreter& interpreter) const {
  const Value value = operand_->Evaluate(interpreter);
  if (op_ == "not") return Value::Bool(!IsTrue(value));
  return op_ == "-" ? Negative(value) : Positive(value);
}

Value Binary::Run(Interpreter& interpreter) const {
  const Value left = left_->Evaluate(interpreter);
  return Arithmetic(interpreter, op_, left, right_->Evaluate(interpreter));
}

Value Logic::Run(Interpreter& interpreter) const {
  Value left = left_->Evaluate(interpreter);
  if (IsTrue(left) != is_and_) return left;
  return right_->Evaluate(interpreter);
}

Value Concatenation::Run(Interpreter& interpreter) const {
  Characters text;
  for (const ExpressionPtr& part : parts_) {
    text.append(Str(interpreter, part->Evaluate(interpreter)));
  }
  return interpreter.Text(std::move(text));
}

Value Comparison::Run(Interpreter& interpreter) const {
  Value left = first_->Evaluate(interpreter);
  for (const auto& [op, expression] : rest_) {
    Value right = expression->Evaluate(interpreter);
    if (!Holds(interpreter, op, left, right)) return Value::Bool(false);
    left = std::move(right);
  }
  return Value::Bool(true);
}

Value Conditional::Run(Interpreter& interpreter) const {
  if (IsTrue(condition_->Evaluate(interpreter))) {
    return yes_->Evaluate(interpreter);
  }
  if (no_ != nullptr) return no_->Evaluate(interpreter);
  return Value::Undefined(
      absl::StrCat("the inline if-expression on line ", line(),
                   " evaluated to false and no else section was defined."));
}

Value ItemOf::Run(Interpreter& interpreter) const {
  const Value object = object_->Evaluate(interpreter);
  return interpreter.Item(object, key_->Evaluate(interpreter));
}

Value SliceOf::Run(Interpreter& interpreter) const {
  const Value object = object_->Evaluate(interpreter);
  const auto bound = [&](const ExpressionPtr& expression) {
    return expression == nullptr ? Value() : expression->Evaluate(interpreter);
  };
  const Value start = bound(start_);
  const Value stop = bound(stop_);
  return SliceValue(interpreter, object, {start, stop, bound(step_)});
}

Value CallOf::Run(Interpreter& interpreter) const {
  const Value callee = callee_->Evaluate(interpreter);
  return interpreter.Call(callee, arguments_.Evaluate(interpreter));
}

Value CallOf::CallWith(Interpreter& interpreter, Value caller) const {
  const Value callee = callee_->Evaluate(interpreter);
  CallArguments arguments = arguments_.Evaluate(interpreter);
  arguments.named.emplace_back("caller", std::move(caller));
  return interpreter.Call(callee, std::move(arguments));
}

Value FilterOf::Run(Interpreter& interpreter) const {
  const Value subject = subject_->Evaluate(interpreter);
  return interpreter.Filter(name_, subject, arguments_.Evaluate(interpreter));
}

Value FilterOf::Apply(Interpreter& interpreter, const Value& text) const {
  const auto* before = dynamic_cast<const FilterOf*>(subject_.get());
  const Value subject =
      before == nullptr ? text : before->Apply(interpreter, text);
  return interpreter.Filter(name_, subject, arguments_.Evaluate(interpreter));
}

Value TestOf::Run(Interpreter& interpreter) const {
  const Value subject = subject_->Evaluate(interpreter);
  return Value::Bool(
      interpreter.Test(name_, subject, arguments_.Evaluate(interpreter)));
}

}  // namespace espalier::jinja
