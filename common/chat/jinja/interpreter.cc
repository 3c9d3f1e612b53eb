#include "common/chat/jinja/interpreter.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/chat/jinja/error.h"
#include "common/chat/jinja/filters.h"
#include "common/chat/jinja/globals.h"
#include "common/chat/jinja/members.h"
#include "common/chat/jinja/operators.h"
#include "common/chat/jinja/print.h"

namespace espalier::jinja {
namespace {

Value Unsafe(const Value& object, std::string_view name) {
  return Value::Undefined(
      absl::StrCat("access to attribute '", std::string(name), "' of '",
                   TypeName(object), "' object is unsafe."));
}

bool IsUnsafe(const Value& object, std::string_view name) {
  return ChangesItsObject(object, name) || (!name.empty() && name[0] == '_');
}

}  // namespace

void Scope::Set(std::string_view name, Value value) {
  for (auto& [known, old] : variables) {
    if (known == name) {
      old = std::move(value);
      return;
    }
  }
  variables.emplace_back(std::string(name), std::move(value));
}

const Value* Scope::Find(std::string_view name) const {
  for (const auto& [known, value] : variables) {
    if (known == name) return &value;
  }
  return nullptr;
}

Interpreter::Interpreter(absl::Time now)
    : now_(now), scope_(std::make_shared<Scope>()) {
  AddGlobals(*this);
}

// Objects that refer to each other are emptied before the first one goes: their
// chains may be long, and each link would take stack.
Interpreter::~Interpreter() {
  for (const auto& object : owned_) object->Clear();
  scope_->variables.clear();
}

void Interpreter::SetGlobal(std::string_view name, Value value) {
  globals_.Set(name, std::move(value));
}

Value Interpreter::Variable(const std::string& name) const {
  for (const Scope* scope = scope_.get(); scope != nullptr;
       scope = scope->parent.get()) {
    const Value* found = scope->Find(name);
    if (found != nullptr) return *found;
  }
  const Value* found = globals_.Find(name);
  if (found != nullptr) return *found;
  return Value::Undefined(absl::StrCat("'", name, "' is undefined"));
}

void Interpreter::Write(CharactersView text) {
  budget_.SpendCharacters(text.size());
  outputs_.back().append(text);
}

Value Interpreter::Attribute(const Value& object, const std::string& name) {
  RequireDefined(object);
  if (ChangesItsObject(object, name)) return Unsafe(object, name);
  std::optional<Value> found = FindAttribute(*this, object, name);
  if (found.has_value()) {
    return IsUnsafe(object, name) ? Unsafe(object, name) : *std::move(found);
  }
  if (object.IsDict()) {
    const Value* item =
        object.dict().Find(budget_, ConstantText(FromUtf8(name)));
    if (item != nullptr) return *item;
  }
  return Value::Undefined(absl::StrCat("'", ObjectTypeName(object),
                                       "' has no attribute '", name, "'"));
}

Value Interpreter::Item(const Value& object, const Value& key) {
  RequireDefined(object);
  std::optional<Value> found = FindItem(*this, object, key);
  if (found.has_value()) return *std::move(found);
  if (!key.IsText()) {
    Characters shown;
    AppendRepr(*this, key, 0, shown);
    return Value::Undefined(absl::StrCat(ObjectTypeName(object),
                                         " has no element ", ToUtf8(shown)));
  }
  const std::string name = ToUtf8(key.characters());
  if (ChangesItsObject(object, name)) return Unsafe(object, name);
  found = FindAttribute(*this, object, name);
  if (found.has_value()) {
    return IsUnsafe(object, name) ? Unsafe(object, name) : *std::move(found);
  }
  return Value::Undefined(absl::StrCat("'", ObjectTypeName(object),
                                       "' has no attribute '", name, "'"));
}

Value Interpreter::Call(const Value& callee, CallArguments arguments) {
  RequireDefined(callee);
  if (!callee.IsObject()) {
    throw Error(
        absl::StrCat("'", TypeName(callee), "' object is not callable"));
  }
  // The copy keeps it while it runs: it may replace the variable that holds it.
  return std::shared_ptr<Object>(callee.object())
      ->Call(*this, std::move(arguments));
}

Value Interpreter::Filter(const std::string& name, const Value& subject,
                          CallArguments arguments) {
  const FilterFunction filter = FindFilter(name);
  if (filter == nullptr) {
    throw Error(absl::StrCat("No filter named '", name, "' found."));
  }
  return filter(*this, subject, std::move(arguments));
}

bool Interpreter::Test(const std::string& name, const Value& subject,
                       CallArguments arguments) {
  const TestFunction test = FindTest(name);
  if (test == nullptr) {
    throw Error(absl::StrCat("No test named '", name, "' found."));
  }
  return test(*this, subject, std::move(arguments));
}

IteratorPtr Interpreter::IterateOrNull(const Value& value) {
  if (value.IsObject()) return value.object()->Iterate(*this);
  if (value.IsUndefined()) {
    return IteratorOf([]() -> std::optional<Value> { return std::nullopt; });
  }
  if (!value.IsText() && !value.IsSequence() && !value.IsDict()) return nullptr;
  // The copy keeps the items alive.
  return IteratorOf(
      [this, value, at = size_t{0}]() mutable -> std::optional<Value> {
        budget_.Spend(1);
        if (value.IsText()) {
          if (at >= value.characters().size()) return std::nullopt;
          return Text(Characters(1, value.characters()[at++]));
        }
        if (value.IsSequence()) {
          if (at >= value.items().size()) return std::nullopt;
          return value.items()[at++];
        }
        if (at >= value.dict().items().size()) return std::nullopt;
        return value.dict().items()[at++].first;
      });
}

IteratorPtr Interpreter::Iterate(const Value& value) {
  IteratorPtr iterator = IterateOrNull(value);
  if (iterator != nullptr) return iterator;
  throw Error(absl::StrCat("'", TypeName(value), "' object is not iterable"));
}

std::vector<Value> Interpreter::Items(const Value& value) {
  if (value.IsSequence()) {
    budget_.SpendValues(value.items().size() / 8);
    return value.items();
  }
  std::vector<Value> items;
  const IteratorPtr iterator = Iterate(value);
  for (auto item = iterator->Next(); item.has_value();
       item = iterator->Next()) {
    budget_.Spend(1);
    items.push_back(*std::move(item));
  }
  return items;
}

Value Interpreter::Own(std::shared_ptr<Object> object) {
  budget_.SpendValue();
  owned_.push_back(object);
  return Value::Of(std::move(object));
}

ScopeGuard::ScopeGuard(Interpreter& interpreter, std::shared_ptr<Scope> parent)
    : interpreter_(interpreter), before_(interpreter.scope_) {
  interpreter.scope_ = std::make_shared<Scope>();
  interpreter.scope_->parent = std::move(parent);
}

}  // namespace espalier::jinja
