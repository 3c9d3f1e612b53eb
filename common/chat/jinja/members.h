#ifndef ESPALIER_COMMON_CHAT_JINJA_MEMBERS_H_
#define ESPALIER_COMMON_CHAT_JINJA_MEMBERS_H_

#include <optional>
#include <string_view>

#include "common/chat/jinja/interpreter.h"
#include "common/chat/jinja/value.h"

namespace espalier::jinja {

// Python's getattr: a method or an attribute; null: there is none. Throws
// Error: Python has it, and this interpreter does not.
std::optional<Value> FindAttribute(Interpreter& interpreter,
                                   const Value& object, std::string_view name);
// Returns whether it changes its object, as the sandbox of Jinja sees it.
bool ChangesItsObject(const Value& object, std::string_view name);

// Python's object[key]; null: TypeError or LookupError.
std::optional<Value> FindItem(Interpreter& interpreter, const Value& object,
                              const Value& key);

struct SliceBounds {
  Value start, stop, step;  // None: left out
};
// object[start:stop:step]. Throws Error: it cannot be cut.
Value SliceValue(Interpreter& interpreter, const Value& object,
                 const SliceBounds& bounds);

// Methods by name; null: there is no such method. `self` is of the type.
using Method = Value (*)(Interpreter& interpreter, const Value& self,
                         CallArguments arguments);
Method FindTextMethod(std::string_view name);
Method FindSequenceMethod(std::string_view name);
Method FindDictMethod(std::string_view name);

}  // namespace espalier::jinja

#endif  // ESPALIER_COMMON_CHAT_JINJA_MEMBERS_H_
