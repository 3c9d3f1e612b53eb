#ifndef ESPALIER_COMMON_CHAT_JINJA_STATEMENTS_H_
#define ESPALIER_COMMON_CHAT_JINJA_STATEMENTS_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/chat/jinja/ast.h"
#include "common/chat/jinja/expressions.h"

// The nodes of statements.
namespace espalier::jinja {

// Text outside of tags.
class Data : public Statement {
 public:
  Data(int line, Characters text) : Statement(line), text_(std::move(text)) {}

 private:
  Flow Run(Interpreter& interpreter) const override;

  Characters text_;
};

// {{ expression }}
class Output : public Statement {
 public:
  explicit Output(ExpressionPtr expression)
      : Statement(expression->line()), expression_(std::move(expression)) {}

 private:
  Flow Run(Interpreter& interpreter) const override;

  ExpressionPtr expression_;
};

class If : public Statement {
 public:
  struct Branch {
    ExpressionPtr condition;  // null: else
    Body body;
  };
  If(int line, std::vector<Branch> branches)
      : Statement(line), branches_(std::move(branches)) {}

 private:
  Flow Run(Interpreter& interpreter) const override;

  std::vector<Branch> branches_;
};

class For : public Statement {
 public:
  struct Parts {
    Target target;
    ExpressionPtr iterable;
    ExpressionPtr condition;  // may be null
    Body body;
    Body otherwise;  // where nothing was iterated
    bool recursive = false;
  };
  For(int line, Parts parts) : Statement(line), parts_(std::move(parts)) {}

  // Renders the loop over `iterable` within `scope`, `level` calls of `loop`
  // deep.
  Flow Loop(Interpreter& interpreter, const Value& iterable,
            const std::shared_ptr<Scope>& scope, int level) const;

 private:
  Flow Run(Interpreter& interpreter) const override;
  // Returns the items that satisfy the condition.
  IteratorPtr Selected(Interpreter& interpreter, IteratorPtr items,
                       std::shared_ptr<Scope> scope) const;

  Parts parts_;
};

class Set : public Statement {
 public:
  Set(int line, Target target, ExpressionPtr value)
      : Statement(line), target_(std::move(target)), value_(std::move(value)) {}

 private:
  Flow Run(Interpreter& interpreter) const override;

  Target target_;
  ExpressionPtr value_;
};

// {% set a %}...{% endset %}
class SetBlock : public Statement {
 public:
  SetBlock(int line, Target target, std::unique_ptr<FilterOf> filter, Body body)
      : Statement(line),
        target_(std::move(target)),
        filter_(std::move(filter)),
        body_(std::move(body)) {}

 private:
  Flow Run(Interpreter& interpreter) const override;

  Target target_;
  std::unique_ptr<FilterOf> filter_;  // may be null
  Body body_;
};

class With : public Statement {
 public:
  using Values = std::vector<std::pair<Target, ExpressionPtr>>;
  With(int line, Values values, Body body)
      : Statement(line), values_(std::move(values)), body_(std::move(body)) {}

 private:
  Flow Run(Interpreter& interpreter) const override;

  Values values_;
  Body body_;
};

class FilterBlock : public Statement {
 public:
  FilterBlock(int line, std::unique_ptr<FilterOf> filter, Body body)
      : Statement(line), filter_(std::move(filter)), body_(std::move(body)) {}

 private:
  Flow Run(Interpreter& interpreter) const override;

  std::unique_ptr<FilterOf> filter_;
  Body body_;
};

// Holds what a macro and the body of a call block share.
struct MacroCode {
  std::string name;  // empty: a caller
  Signature signature;
  Body body;
};

class MacroStatement : public Statement {
 public:
  MacroStatement(int line, std::shared_ptr<const MacroCode> code)
      : Statement(line), code_(std::move(code)) {}

 private:
  Flow Run(Interpreter& interpreter) const override;

  std::shared_ptr<const MacroCode> code_;
};

class CallBlock : public Statement {
 public:
  CallBlock(int line, std::shared_ptr<const MacroCode> code,
            std::unique_ptr<CallOf> call)
      : Statement(line), code_(std::move(code)), call_(std::move(call)) {}

 private:
  Flow Run(Interpreter& interpreter) const override;

  std::shared_ptr<const MacroCode> code_;
  std::unique_ptr<CallOf> call_;
};

// {% generation %}: what an assistant wrote. Also {% block %} and
// {% autoescape false %}: a body with variables of its own.
class Block : public Statement {
 public:
  Block(int line, Body body) : Statement(line), body_(std::move(body)) {}

 private:
  Flow Run(Interpreter& interpreter) const override;

  Body body_;
};

// {% break %} or {% continue %}
class Jump : public Statement {
 public:
  Jump(int line, Flow flow) : Statement(line), flow_(flow) {}

 private:
  Flow Run(Interpreter&) const override { return flow_; }

  Flow flow_;
};

}  // namespace espalier::jinja

#endif  // ESPALIER_COMMON_CHAT_JINJA_STATEMENTS_H_
