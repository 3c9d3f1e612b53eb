#ifndef ESPALIER_COMMON_CHAT_JINJA_AST_H_
#define ESPALIER_COMMON_CHAT_JINJA_AST_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/chat/jinja/interpreter.h"
#include "common/chat/jinja/value.h"

namespace espalier::jinja {

// A node that has a value. Immutable after parsing, as are statements.
class Expression {
 public:
  explicit Expression(int line) : line_(line) {}
  virtual ~Expression() = default;

  // Throws Error, with the line of the innermost node that failed.
  Value Evaluate(Interpreter& interpreter) const;
  int line() const { return line_; }

 private:
  virtual Value Run(Interpreter& interpreter) const = 0;

  int line_;
};
using ExpressionPtr = std::unique_ptr<Expression>;

enum class Flow { kNext, kBreak, kContinue };

class Statement {
 public:
  explicit Statement(int line) : line_(line) {}
  virtual ~Statement() = default;

  Flow Execute(Interpreter& interpreter) const;
  int line() const { return line_; }

 private:
  virtual Flow Run(Interpreter& interpreter) const = 0;

  int line_;
};
using StatementPtr = std::unique_ptr<Statement>;
using Body = std::vector<StatementPtr>;

// Executes one after the other until one breaks.
Flow ExecuteBody(const Body& body, Interpreter& interpreter);

// Holds what may stand before "=" or "in": a name, an attribute of a namespace,
// or a tuple of targets.
struct Target {
  std::string name;
  std::string attribute;      // empty: the name itself is set
  std::vector<Target> tuple;  // not empty, or is_tuple: each gets an item
  bool is_tuple = false;
  int line = 0;
};

// Holds what a call passes.
struct ArgumentList {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr more_positional;  // *args; may be null
  ExpressionPtr more_named;       // **kwargs; may be null

  CallArguments Evaluate(Interpreter& interpreter) const;
};

// Holds what a macro or the body of a call block takes.
struct Signature {
  std::vector<std::string> parameters;
  // The defaults belong to the last parameters.
  std::vector<ExpressionPtr> defaults;
  // Is true if its body has these names.
  bool uses_caller = false;
  bool uses_named = false;
  bool uses_positional = false;
};

}  // namespace espalier::jinja

#endif  // ESPALIER_COMMON_CHAT_JINJA_AST_H_
