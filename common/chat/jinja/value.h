#ifndef ESPALIER_COMMON_CHAT_JINJA_VALUE_H_
#define ESPALIER_COMMON_CHAT_JINJA_VALUE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "common/chat/jinja/budget.h"
#include "common/chat/jinja/characters.h"

namespace espalier::jinja {

class Dict;
class Object;
class Value;

// Python's integers have no end; these refuse what 127 bits do not hold.
__extension__ typedef __int128 Int;

struct Text {
  Characters characters;
  bool markup = false;  // what the filter `safe` makes: markupsafe.Markup
};

// A list or a tuple.
struct Sequence {
  enum class Kind { kList, kTuple, kGroup };  // kGroup: a tuple of groupby

  std::vector<Value> items;
  Kind kind = Kind::kList;
  int depth = 1;
};

// A value as Python has it. Texts, lists, tuples and dicts never change, so
// they hold no cycles. Copies are cheap.
class Value {
 public:
  Value() = default;  // None
  // `why` is the error where more is done with it than printing it.
  static Value Undefined(std::string why);
  static Value Bool(bool value) { return Value(value); }
  static Value Integer(Int value) { return Value(value); }
  static Value Float(double value) { return Value(value); }
  static Value Of(std::shared_ptr<Object> object);

  bool IsNone() const { return Holds<std::monostate>(); }
  bool IsUndefined() const { return Holds<UndefinedPtr>(); }
  bool IsBool() const { return Holds<bool>(); }
  bool IsInt() const { return Holds<Int>(); }
  bool IsFloat() const { return Holds<double>(); }
  bool IsText() const { return Holds<TextPtr>(); }
  bool IsList() const;
  bool IsTuple() const;
  bool IsSequence() const { return Holds<SequencePtr>(); }
  bool IsDict() const { return Holds<DictPtr>(); }
  bool IsObject() const { return Holds<ObjectPtr>(); }
  bool IsNumber() const { return IsBool() || IsInt() || IsFloat(); }
  bool IsMarkup() const { return IsText() && text().markup; }

  // REQUIRES: the kind.
  const std::string& undefined() const {
    return *std::get<UndefinedPtr>(value_);
  }
  bool boolean() const { return std::get<bool>(value_); }
  double real() const { return std::get<double>(value_); }
  const Text& text() const { return *std::get<TextPtr>(value_); }
  const Characters& characters() const { return text().characters; }
  const Sequence& sequence() const { return *std::get<SequencePtr>(value_); }
  const std::vector<Value>& items() const { return sequence().items; }
  const Dict& dict() const { return *std::get<DictPtr>(value_); }
  const std::shared_ptr<const Dict>& dict_ptr() const {
    return std::get<DictPtr>(value_);
  }
  const std::shared_ptr<Object>& object() const {
    return std::get<ObjectPtr>(value_);
  }
  // Returns the value of an int or a bool.
  Int integer() const {
    return IsBool() ? Int{boolean()} : std::get<Int>(value_);
  }
  bool IsIntegral() const { return IsBool() || IsInt(); }

  // Levels of what it contains; 0: nothing.
  int depth() const;

 private:
  friend Value MakeText(Budget& budget, Characters text, bool markup);
  friend Value MakeSequence(Budget& budget, std::vector<Value> items,
                            Sequence::Kind kind);
  friend Value MakeDict(Budget& budget, Dict dict);
  friend Value ConstantText(Characters text);

  using UndefinedPtr = std::shared_ptr<const std::string>;
  using TextPtr = std::shared_ptr<const Text>;
  using SequencePtr = std::shared_ptr<const Sequence>;
  using DictPtr = std::shared_ptr<const Dict>;
  using ObjectPtr = std::shared_ptr<Object>;
  using Variant = std::variant<std::monostate, UndefinedPtr, bool, Int, double,
                               TextPtr, SequencePtr, DictPtr, ObjectPtr>;

  explicit Value(Variant value) : value_(std::move(value)) {}
  template <typename T>
  bool Holds() const {
    return std::holds_alternative<T>(value_);
  }

  Variant value_;
};

// A dict keeps the order of its keys. Equal keys are those of Python: 1, 1.0
// and True are one.
class Dict {
 public:
  // Null: not there. Throws Error: `key` is not hashable.
  const Value* Find(Budget& budget, const Value& key) const;
  const Value* Find(std::string_view ascii_key) const;
  void Set(Budget& budget, Value key, Value value);
  const std::vector<std::pair<Value, Value>>& items() const { return items_; }
  int depth() const { return depth_; }

 private:
  // Returns where `key` is in items_, or the end.
  size_t IndexOf(Budget& budget, const Value& key) const;

  std::vector<std::pair<Value, Value>> items_;
  // Hash to position; empty while there are few items.
  std::unordered_multimap<size_t, size_t> positions_;
  int depth_ = 1;
};

// All pay from the budget, and throw Error where values nest too deeply.
Value MakeText(Budget& budget, Characters text, bool markup = false);
Value MakeSequence(Budget& budget, std::vector<Value> items,
                   Sequence::Kind kind);
inline Value MakeList(Budget& budget, std::vector<Value> items) {
  return MakeSequence(budget, std::move(items), Sequence::Kind::kList);
}
inline Value MakeTuple(Budget& budget, std::vector<Value> items) {
  return MakeSequence(budget, std::move(items), Sequence::Kind::kTuple);
}
Value MakeDict(Budget& budget, Dict dict);
// Text of a template, which is paid for when it is parsed.
Value ConstantText(Characters text);

// Most levels of values within values: code that walks them takes stack for
// each level.
inline constexpr int kMaxValueDepth = 200;

bool IsTrue(const Value& value);
// Python's ==. Pays for what it compares: values may share their parts.
bool Equal(Budget& budget, const Value& a, const Value& b);
// Throws Error: the value is not hashable.
size_t HashOf(Budget& budget, const Value& value);
// Returns Python's name of the value's type, such as "NoneType".
std::string TypeName(const Value& value);
// Returns the type's name in Jinja's errors: "dict object", "None".
std::string ObjectTypeName(const Value& value);
// REQUIRES: IsNumber.
double ToDouble(const Value& number);

}  // namespace espalier::jinja

#endif  // ESPALIER_COMMON_CHAT_JINJA_VALUE_H_
