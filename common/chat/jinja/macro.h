#ifndef ESPALIER_COMMON_CHAT_JINJA_MACRO_H_
#define ESPALIER_COMMON_CHAT_JINJA_MACRO_H_

#include <memory>
#include <string>

#include "common/chat/jinja/object.h"
#include "common/chat/jinja/statements.h"

namespace espalier::jinja {

// A macro, or what `caller` is: code with the scope in which it was defined.
class Macro : public Object {
 public:
  Macro(std::shared_ptr<const MacroCode> code, std::shared_ptr<Scope> scope)
      : Object(0), code_(std::move(code)), scope_(std::move(scope)) {}

  std::string TypeName() const override { return "Macro"; }
  bool IsCallable() const override { return true; }
  Value Call(Interpreter& interpreter, CallArguments arguments) override;
  std::optional<Value> Attribute(Interpreter& interpreter,
                                 std::string_view name) override;
  Characters Repr(Interpreter& interpreter, int depth) override;
  void Clear() override;

 private:
  // Gives parameters their values: from `arguments`, or null. Takes what it
  // uses out of them.
  std::vector<std::optional<Value>> Bind(CallArguments& arguments) const;
  void BindCaller(Interpreter& interpreter, CallArguments& arguments) const;
  void BindRest(Interpreter& interpreter, CallArguments& arguments) const;

  std::shared_ptr<const MacroCode> code_;
  std::shared_ptr<Scope> scope_;
};

}  // namespace espalier::jinja

#endif  // ESPALIER_COMMON_CHAT_JINJA_MACRO_H_
