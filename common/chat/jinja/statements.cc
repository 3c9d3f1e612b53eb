#include "common/chat/jinja/statements.h"

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/chat/jinja/error.h"
#include "common/chat/jinja/loop.h"
#include "common/chat/jinja/macro.h"
#include "common/chat/jinja/operators.h"
#include "common/chat/jinja/print.h"

namespace espalier::jinja {
namespace {

void SetAttribute(const Target& target, Interpreter& interpreter, Value value) {
  const Value object = interpreter.Variable(target.name);
  auto* space = object.IsObject()
                    ? dynamic_cast<Namespace*>(object.object().get())
                    : nullptr;
  if (space == nullptr) {
    throw Error("cannot assign attribute on non-namespace object");
  }
  interpreter.budget().SpendValue();
  space->Set(interpreter.budget(), target.attribute, std::move(value));
}

void Assign(const Target& target, Interpreter& interpreter, Value value) {
  if (!target.is_tuple) {
    if (target.attribute.empty()) {
      interpreter.SetVariable(target.name, std::move(value));
    } else {
      SetAttribute(target, interpreter, std::move(value));
    }
    return;
  }
  IteratorPtr iterator = interpreter.IterateOrNull(value);
  if (iterator == nullptr) {
    throw Error(absl::StrCat("cannot unpack non-iterable ", TypeName(value),
                             " object"));
  }
  const std::vector<Value> items = interpreter.Items(value);
  const size_t expected = target.tuple.size();
  if (items.size() > expected) {
    throw Error(
        absl::StrCat("too many values to unpack (expected ", expected, ")"));
  }
  if (items.size() < expected) {
    throw Error(absl::StrCat("not enough values to unpack (expected ", expected,
                             ", got ", items.size(), ")"));
  }
  for (size_t i = 0; i < expected; ++i) {
    Assign(target.tuple[i], interpreter, items[i]);
  }
}

// Returns what the body writes, with variables of its own.
Characters Captured(const Body& body, Interpreter& interpreter, Flow& flow) {
  const ScopeGuard guard(interpreter);
  Capture capture(interpreter);
  flow = ExecuteBody(body, interpreter);
  return capture.Take();
}

// Writes the result of a filter or call block, which Python joins as it is.
void WriteText(Interpreter& interpreter, const Value& value) {
  if (!value.IsText()) {
    throw Error(
        absl::StrCat("expected str instance, ", TypeName(value), " found"));
  }
  interpreter.Write(value.characters());
}

}  // namespace

Flow Statement::Execute(Interpreter& interpreter) const {
  try {
    const Step step(interpreter.budget());
    return Run(interpreter);
  } catch (Error& error) {
    if (error.line == 0) error.line = line_;
    throw;
  }
}

Flow ExecuteBody(const Body& body, Interpreter& interpreter) {
  for (const StatementPtr& statement : body) {
    const Flow flow = statement->Execute(interpreter);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Flow Data::Run(Interpreter& interpreter) const {
  interpreter.Write(text_);
  return Flow::kNext;
}

Flow Output::Run(Interpreter& interpreter) const {
  const Value value = expression_->Evaluate(interpreter);
  if (value.IsText()) {
    interpreter.Write(value.characters());
  } else {
    interpreter.Write(Str(interpreter, value));
  }
  return Flow::kNext;
}

Flow If::Run(Interpreter& interpreter) const {
  for (const Branch& branch : branches_) {
    if (branch.condition == nullptr ||
        IsTrue(branch.condition->Evaluate(interpreter))) {
      return ExecuteBody(branch.body, interpreter);
    }
  }
  return Flow::kNext;
}

IteratorPtr For::Selected(Interpreter& interpreter, IteratorPtr items,
                          std::shared_ptr<Scope> scope) const {
  return IteratorOf([this, &interpreter, items,
                     scope]() -> std::optional<Value> {
    for (auto item = items->Next(); item.has_value(); item = items->Next()) {
      const ScopeGuard guard(interpreter, scope);
      Assign(parts_.target, interpreter, *item);
      if (IsTrue(parts_.condition->Evaluate(interpreter))) return item;
    }
    return std::nullopt;
  });
}

Flow For::Loop(Interpreter& interpreter, const Value& iterable,
               const std::shared_ptr<Scope>& scope, int level) const {
  IteratorPtr items = interpreter.Iterate(iterable);
  std::optional<Int> length = LengthOf(iterable);
  if (parts_.condition != nullptr) {
    items = Selected(interpreter, std::move(items), scope);
    length = std::nullopt;
  }
  LoopObject::Recurse recurse;
  if (parts_.recursive) {
    recurse = [this, &interpreter, scope, level](const Value& inner) {
      Capture capture(interpreter);
      Loop(interpreter, inner, scope, level + 1);
      return interpreter.Text(capture.Take());
    };
  }
  interpreter.budget().SpendValue();
  const auto loop = std::make_shared<LoopObject>(std::move(items), length,
                                                 DepthAround({iterable}), level,
                                                 std::move(recurse));
  const auto clear = absl::MakeCleanup([&] { loop->Clear(); });
  const Value loop_value = Value::Of(loop);
  // As Jinja2 has it, an iteration that ends early does not count.
  bool any = false;
  for (auto item = loop->Advance(); item.has_value(); item = loop->Advance()) {
    const ScopeGuard guard(interpreter, scope);
    interpreter.SetVariable("loop", loop_value);
    Assign(parts_.target, interpreter, *std::move(item));
    const Flow flow = ExecuteBody(parts_.body, interpreter);
    if (flow == Flow::kBreak) break;
    any |= flow == Flow::kNext;
  }
  if (any) return Flow::kNext;
  const ScopeGuard guard(interpreter, scope);
  return ExecuteBody(parts_.otherwise, interpreter);
}

Flow For::Run(Interpreter& interpreter) const {
  const Value iterable = parts_.iterable->Evaluate(interpreter);
  return Loop(interpreter, iterable, interpreter.scope(), /*level=*/0);
}

Flow Set::Run(Interpreter& interpreter) const {
  Assign(target_, interpreter, value_->Evaluate(interpreter));
  return Flow::kNext;
}

Flow SetBlock::Run(Interpreter& interpreter) const {
  Flow flow;
  Value text = interpreter.Text(Captured(body_, interpreter, flow));
  if (flow != Flow::kNext) return flow;
  if (filter_ != nullptr) text = filter_->Apply(interpreter, text);
  Assign(target_, interpreter, std::move(text));
  return Flow::kNext;
}

Flow With::Run(Interpreter& interpreter) const {
  std::vector<Value> values;
  for (const auto& [target, expression] : values_) {
    values.push_back(expression->Evaluate(interpreter));
  }
  const ScopeGuard guard(interpreter);
  for (size_t i = 0; i < values.size(); ++i) {
    Assign(values_[i].first, interpreter, std::move(values[i]));
  }
  return ExecuteBody(body_, interpreter);
}

Flow FilterBlock::Run(Interpreter& interpreter) const {
  Flow flow;
  const Value text = interpreter.Text(Captured(body_, interpreter, flow));
  if (flow != Flow::kNext) return flow;
  WriteText(interpreter, filter_->Apply(interpreter, text));
  return Flow::kNext;
}

Flow MacroStatement::Run(Interpreter& interpreter) const {
  interpreter.SetVariable(code_->name, interpreter.Own(std::make_shared<Macro>(
                                           code_, interpreter.scope())));
  return Flow::kNext;
}

Flow CallBlock::Run(Interpreter& interpreter) const {
  Value caller =
      interpreter.Own(std::make_shared<Macro>(code_, interpreter.scope()));
  WriteText(interpreter, call_->CallWith(interpreter, std::move(caller)));
  return Flow::kNext;
}

Flow Block::Run(Interpreter& interpreter) const {
  const ScopeGuard guard(interpreter);
  return ExecuteBody(body_, interpreter);
}

}  // namespace espalier::jinja
