#ifndef ESPALIER_COMMON_CHAT_JINJA_OBJECT_H_
#define ESPALIER_COMMON_CHAT_JINJA_OBJECT_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/chat/jinja/value.h"

namespace espalier::jinja {

class Interpreter;

struct CallArguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
  // Some names come from the input: from keys of a dict after "**".
  bool names_from_input = false;
};

// Is what Python calls an iterator.
class Iterator {
 public:
  virtual ~Iterator() = default;
  virtual std::optional<Value> Next() = 0;
};
using IteratorPtr = std::shared_ptr<Iterator>;

// A value of a type that only methods tell apart: functions, ranges, views,
// generators, namespaces, loops. All methods may throw Error.
class Object : public std::enable_shared_from_this<Object> {
 public:
  virtual ~Object() = default;

  virtual std::string TypeName() const = 0;
  virtual bool IsCallable() const { return false; }
  virtual Value Call(Interpreter& interpreter, CallArguments arguments);
  // Null: there is no such attribute.
  virtual std::optional<Value> Attribute(Interpreter& /*interpreter*/,
                                         std::string_view /*name*/) {
    return std::nullopt;
  }
  // Null: there is no such item, or there are none.
  virtual std::optional<Value> Item(Interpreter& /*interpreter*/,
                                    const Value& /*key*/) {
    return std::nullopt;
  }
  // Null: cannot be iterated.
  virtual IteratorPtr Iterate(Interpreter& /*interpreter*/) { return nullptr; }
  // Null: has no length.
  virtual std::optional<Int> Length() { return std::nullopt; }
  virtual bool IsTrue() { return true; }
  virtual bool HasItems() const { return false; }
  virtual Characters Repr(Interpreter& interpreter, int depth);
  // Drops what it refers to: objects that change may refer to themselves.
  virtual void Clear() {}

  int depth() const { return depth_; }

 protected:
  explicit Object(int depth) : depth_(depth) {}

 private:
  int depth_;
};

// Throws Error where values nest too deeply.
int DepthAround(const std::vector<Value>& values);

// range(); at most 100,000 items, as in Jinja's sandbox.
class Range : public Object {
 public:
  Range(Int start, Int stop, Int step);

  std::string TypeName() const override { return "range"; }
  std::optional<Value> Item(Interpreter& interpreter,
                            const Value& key) override;
  IteratorPtr Iterate(Interpreter& interpreter) override;
  std::optional<Int> Length() override { return length_; }
  bool IsTrue() override { return length_ > 0; }
  bool HasItems() const override { return true; }
  Characters Repr(Interpreter& interpreter, int depth) override;

  Value At(Int index) const { return Value::Integer(start_ + index * step_); }
  std::shared_ptr<Range> Slice(Int start, Int count, Int step) const;
  bool Equals(const Range& other) const;

 private:
  Int start_, stop_, step_, length_;
};

// dict.keys(), values(), items().
class DictView : public Object {
 public:
  enum class Kind { kKeys, kValues, kItems };
  DictView(Kind kind, Value dict)
      : Object(dict.depth() + 1), kind_(kind), dict_(std::move(dict)) {}

  std::string TypeName() const override;
  IteratorPtr Iterate(Interpreter& interpreter) override;
  std::optional<Int> Length() override;
  bool IsTrue() override { return *Length() > 0; }
  Characters Repr(Interpreter& interpreter, int depth) override;
  std::vector<Value> Items(Interpreter& interpreter) const;

 private:
  Kind kind_;
  Value dict_;
};

// A generator or another iterator of Python: it is read once.
class Generator : public Object {
 public:
  using Function = std::function<std::optional<Value>()>;
  // `depth` is that of what `next` reads.
  Generator(std::string type, int depth, Function next);

  std::string TypeName() const override { return type_; }
  IteratorPtr Iterate(Interpreter& /*interpreter*/) override { return next_; }

 private:
  std::string type_;
  IteratorPtr next_;
};

// A function, or a method with its object.
class Function : public Object {
 public:
  using Run = std::function<Value(Interpreter&, CallArguments)>;
  Function(std::string name, int depth, Run run)
      : Object(depth), name_(std::move(name)), run_(std::move(run)) {}

  std::string TypeName() const override { return "builtin_function_or_method"; }
  bool IsCallable() const override { return true; }
  Value Call(Interpreter& interpreter, CallArguments arguments) override {
    return run_(interpreter, std::move(arguments));
  }
  Characters Repr(Interpreter& interpreter, int depth) override;

 private:
  std::string name_;
  Run run_;
};

class Namespace : public Object {
 public:
  explicit Namespace(Dict attributes)
      : Object(0), attributes_(std::move(attributes)) {}

  std::string TypeName() const override { return "Namespace"; }
  std::optional<Value> Attribute(Interpreter& interpreter,
                                 std::string_view name) override;
  Characters Repr(Interpreter& interpreter, int depth) override;
  void Clear() override { attributes_ = Dict(); }
  void Set(Budget& budget, std::string_view name, Value value);

 private:
  Dict attributes_;
};

// Returns an iterator of a function.
IteratorPtr IteratorOf(Generator::Function next);

}  // namespace espalier::jinja

#endif  // ESPALIER_COMMON_CHAT_JINJA_OBJECT_H_
