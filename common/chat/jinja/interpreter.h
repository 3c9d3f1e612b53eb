#ifndef ESPALIER_COMMON_CHAT_JINJA_INTERPRETER_H_
#define ESPALIER_COMMON_CHAT_JINJA_INTERPRETER_H_

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/chat/jinja/budget.h"
#include "common/chat/jinja/object.h"
#include "common/chat/jinja/value.h"

namespace espalier::jinja {

// Variables of a loop's iteration, a macro, a block; in it those around it.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<std::string, Value>> variables;

  void Set(std::string_view name, Value value);
  const Value* Find(std::string_view name) const;  // in this one only
};

// One rendering: variables, output and budget. Its methods throw Error. For one
// thread.
class Interpreter {
 public:
  explicit Interpreter(absl::Time now);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  Budget& budget() { return budget_; }
  absl::Time now() const { return now_; }

  // Variables of the one who renders.
  void SetGlobal(std::string_view name, Value value);
  // Undefined if no scope has it.
  Value Variable(const std::string& name) const;
  void SetVariable(std::string_view name, Value value) {
    scope_->Set(name, std::move(value));
  }
  const std::shared_ptr<Scope>& scope() const { return scope_; }

  void Write(CharactersView text);
  Characters TakeOutput() { return std::move(outputs_.back()); }

  // Look something up like a template's dot and brackets.
  Value Attribute(const Value& object, const std::string& name);
  Value Item(const Value& object, const Value& key);
  Value Call(const Value& callee, CallArguments arguments);
  Value Filter(const std::string& name, const Value& subject,
               CallArguments arguments);
  bool Test(const std::string& name, const Value& subject,
            CallArguments arguments);

  // Null: cannot be iterated.
  IteratorPtr IterateOrNull(const Value& value);
  IteratorPtr Iterate(const Value& value);
  std::vector<Value> Items(const Value& value);

  Value Text(Characters characters) {
    return MakeText(budget_, std::move(characters));
  }
  Value Text(std::string_view ascii) {
    return Text(Characters(ascii.begin(), ascii.end()));
  }
  // Keeps an object that may refer to itself until the rendering ends.
  Value Own(std::shared_ptr<Object> object);

 private:
  friend class ScopeGuard;
  friend class Capture;

  Budget budget_;
  const absl::Time now_;
  Scope globals_;
  std::shared_ptr<Scope> scope_;
  // The rendering's, and one for each Capture.
  std::deque<Characters> outputs_ = std::deque<Characters>(1);
  std::vector<std::shared_ptr<Object>> owned_;
};

// While one exists, variables are set in a scope within `parent`.
class ScopeGuard {
 public:
  ScopeGuard(Interpreter& interpreter, std::shared_ptr<Scope> parent);
  explicit ScopeGuard(Interpreter& interpreter)
      : ScopeGuard(interpreter, interpreter.scope()) {}
  ~ScopeGuard() { interpreter_.scope_ = std::move(before_); }
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;

 private:
  Interpreter& interpreter_;
  std::shared_ptr<Scope> before_;
};

// While one exists, what is written goes to it.
class Capture {
 public:
  explicit Capture(Interpreter& interpreter) : interpreter_(interpreter) {
    interpreter.outputs_.emplace_back();
  }
  ~Capture() { interpreter_.outputs_.pop_back(); }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  Characters Take() { return interpreter_.TakeOutput(); }

 private:
  Interpreter& interpreter_;
};

}  // namespace espalier::jinja

#endif  // ESPALIER_COMMON_CHAT_JINJA_INTERPRETER_H_
