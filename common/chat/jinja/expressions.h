#ifndef ESPALIER_COMMON_CHAT_JINJA_EXPRESSIONS_H_
#define ESPALIER_COMMON_CHAT_JINJA_EXPRESSIONS_H_

#include <string>
#include <utility>
#include <vector>

#include "common/chat/jinja/ast.h"

// The nodes of expressions.
namespace espalier::jinja {

class Constant : public Expression {
 public:
  Constant(int line, Value value)
      : Expression(line), value_(std::move(value)) {}

 private:
  Value Run(Interpreter&) const override { return value_; }

  Value value_;
};

class Name : public Expression {
 public:
  Name(int line, std::string name) : Expression(line), name_(std::move(name)) {}

 private:
  Value Run(Interpreter& interpreter) const override {
    return interpreter.Variable(name_);
  }

  std::string name_;
};

// [a, b] or (a, b).
class SequenceLiteral : public Expression {
 public:
  SequenceLiteral(int line, Sequence::Kind kind,
                  std::vector<ExpressionPtr> items)
      : Expression(line), kind_(kind), items_(std::move(items)) {}

 private:
  Value Run(Interpreter& interpreter) const override;

  Sequence::Kind kind_;
  std::vector<ExpressionPtr> items_;
};

class DictLiteral : public Expression {
 public:
  using Items = std::vector<std::pair<ExpressionPtr, ExpressionPtr>>;
  DictLiteral(int line, Items items)
      : Expression(line), items_(std::move(items)) {}

 private:
  Value Run(Interpreter& interpreter) const override;

  Items items_;
};

// "-", "+" or "not".
class Unary : public Expression {
 public:
  Unary(int line, std::string op, ExpressionPtr operand)
      : Expression(line), op_(std::move(op)), operand_(std::move(operand)) {}

 private:
  Value Run(Interpreter& interpreter) const override;

  std::string op_;
  ExpressionPtr operand_;
};

// An arithmetic operator.
class Binary : public Expression {
 public:
  Binary(int line, std::string op, ExpressionPtr left, ExpressionPtr right)
      : Expression(line),
        op_(std::move(op)),
        left_(std::move(left)),
        right_(std::move(right)) {}

 private:
  Value Run(Interpreter& interpreter) const override;

  std::string op_;
  ExpressionPtr left_, right_;
};

// "and" or "or".
class Logic : public Expression {
 public:
  Logic(int line, bool is_and, ExpressionPtr left, ExpressionPtr right)
      : Expression(line),
        is_and_(is_and),
        left_(std::move(left)),
        right_(std::move(right)) {}

 private:
  Value Run(Interpreter& interpreter) const override;

  bool is_and_;
  ExpressionPtr left_, right_;
};

// a ~ b ~ c.
class Concatenation : public Expression {
 public:
  Concatenation(int line, std::vector<ExpressionPtr> parts)
      : Expression(line), parts_(std::move(parts)) {}

 private:
  Value Run(Interpreter& interpreter) const override;

  std::vector<ExpressionPtr> parts_;
};

// a < b <= c: a chain, as in Python.
class Comparison : public Expression {
 public:
  using Rest = std::vector<std::pair<std::string, ExpressionPtr>>;
  Comparison(int line, ExpressionPtr first, Rest rest)
      : Expression(line), first_(std::move(first)), rest_(std::move(rest)) {}

 private:
  Value Run(Interpreter& interpreter) const override;

  ExpressionPtr first_;
  Rest rest_;
};

// a if b else c; without "else" it is undefined.
class Conditional : public Expression {
 public:
  Conditional(int line, ExpressionPtr condition, ExpressionPtr yes,
              ExpressionPtr no)
      : Expression(line),
        condition_(std::move(condition)),
        yes_(std::move(yes)),
        no_(std::move(no)) {}

 private:
  Value Run(Interpreter& interpreter) const override;

  ExpressionPtr condition_, yes_, no_;
};

// a.b
class AttributeOf : public Expression {
 public:
  AttributeOf(int line, ExpressionPtr object, std::string name)
      : Expression(line), object_(std::move(object)), name_(std::move(name)) {}

 private:
  Value Run(Interpreter& interpreter) const override {
    return interpreter.Attribute(object_->Evaluate(interpreter), name_);
  }

  ExpressionPtr object_;
  std::string name_;
};

// a[b]
class ItemOf : public Expression {
 public:
  ItemOf(int line, ExpressionPtr object, ExpressionPtr key)
      : Expression(line), object_(std::move(object)), key_(std::move(key)) {}

 private:
  Value Run(Interpreter& interpreter) const override;

  ExpressionPtr object_, key_;
};

// a[b:c:d]; each may be null.
class SliceOf : public Expression {
 public:
  SliceOf(int line, ExpressionPtr object, ExpressionPtr start,
          ExpressionPtr stop, ExpressionPtr step)
      : Expression(line),
        object_(std::move(object)),
        start_(std::move(start)),
        stop_(std::move(stop)),
        step_(std::move(step)) {}

 private:
  Value Run(Interpreter& interpreter) const override;

  ExpressionPtr object_, start_, stop_, step_;
};

class CallOf : public Expression {
 public:
  CallOf(int line, ExpressionPtr callee, ArgumentList arguments)
      : Expression(line),
        callee_(std::move(callee)),
        arguments_(std::move(arguments)) {}

  // Calls it with `caller` as a further argument, for a call block.
  Value CallWith(Interpreter& interpreter, Value caller) const;

 private:
  Value Run(Interpreter& interpreter) const override;

  ExpressionPtr callee_;
  ArgumentList arguments_;
};

// a | name(...); without a, in a filter block, what is applied to its text.
class FilterOf : public Expression {
 public:
  FilterOf(int line, ExpressionPtr subject, std::string name,
           ArgumentList arguments)
      : Expression(line),
        subject_(std::move(subject)),
        name_(std::move(name)),
        arguments_(std::move(arguments)) {}

  // Applies the filters before this one, and this one.
  Value Apply(Interpreter& interpreter, const Value& text) const;

 private:
  Value Run(Interpreter& interpreter) const override;

  ExpressionPtr subject_;
  std::string name_;
  ArgumentList arguments_;
};

// a is name(...)
class TestOf : public Expression {
 public:
  TestOf(int line, ExpressionPtr subject, std::string name,
         ArgumentList arguments)
      : Expression(line),
        subject_(std::move(subject)),
        name_(std::move(name)),
        arguments_(std::move(arguments)) {}

 private:
  Value Run(Interpreter& interpreter) const override;

  ExpressionPtr subject_;
  std::string name_;
  ArgumentList arguments_;
};

}  // namespace espalier::jinja

#endif  // ESPALIER_COMMON_CHAT_JINJA_EXPRESSIONS_H_
