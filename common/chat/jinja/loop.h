#ifndef ESPALIER_COMMON_CHAT_JINJA_LOOP_H_
#define ESPALIER_COMMON_CHAT_JINJA_LOOP_H_

#include <deque>
#include <functional>
#include <optional>
#include <string>

#include "common/chat/jinja/object.h"

namespace espalier::jinja {

// The variable `loop`. It reads ahead only as far as it is asked about.
class LoopObject : public Object {
 public:
  // Renders the loop's body over an iterable; empty: it is not recursive.
  using Recurse = std::function<Value(const Value& iterable)>;
  // `length`: null if only the iterator knows.
  LoopObject(IteratorPtr items, std::optional<Int> length, int depth, int level,
             Recurse recurse)
      : Object(depth),
        items_(std::move(items)),
        length_(length),
        level_(level),
        recurse_(std::move(recurse)) {}

  // Goes to the next iteration; null: there is none.
  std::optional<Value> Advance();

  std::string TypeName() const override { return "LoopContext"; }
  bool IsCallable() const override { return true; }
  Value Call(Interpreter& interpreter, CallArguments arguments) override;
  std::optional<Value> Attribute(Interpreter& interpreter,
                                 std::string_view name) override;
  std::optional<Int> Length() override;
  Characters Repr(Interpreter& interpreter, int depth) override;
  void Clear() override {
    recurse_ = nullptr;
    last_changed_.reset();
  }

 private:
  // Returns what comes after the current item; null: nothing.
  const Value* Next();
  Value Changed(Interpreter& interpreter, CallArguments arguments);

  IteratorPtr items_;
  std::deque<Value> ahead_;
  std::optional<Int> length_;
  int level_;
  Recurse recurse_;
  Int index_ = -1;  // from 0
  std::optional<Value> before_;
  std::optional<Value> current_;
  std::optional<Value> last_changed_;
};

}  // namespace espalier::jinja

#endif  // ESPALIER_COMMON_CHAT_JINJA_LOOP_H_
