#ifndef ESPALIER_COMMON_CHAT_JINJA_OPERATORS_H_
#define ESPALIER_COMMON_CHAT_JINJA_OPERATORS_H_

#include <optional>
#include <string_view>

#include "common/chat/jinja/interpreter.h"
#include "common/chat/jinja/value.h"

namespace espalier::jinja {

// Python's operators: "+" "-" "*" "/" "//" "%" "**". Throw Error in Python's
// words.
Value Arithmetic(Interpreter& interpreter, std::string_view op, const Value& a,
                 const Value& b);
Value Negative(const Value& value);
Value Positive(const Value& value);

// "==" "!=" "<" "<=" ">" ">=" "in" "not in".
bool Holds(Interpreter& interpreter, std::string_view op, const Value& a,
           const Value& b);
bool Less(Interpreter& interpreter, const Value& a, const Value& b);
bool Contains(Interpreter& interpreter, const Value& container,
              const Value& item);

// Returns where `part` begins in `text` at or after `from`; npos: nowhere.
size_t Find(Interpreter& interpreter, CharactersView text, CharactersView part,
            size_t from = 0);
// Returns the last place that ends at or before `end`.
size_t FindLast(Interpreter& interpreter, CharactersView text,
                CharactersView part, size_t end);

// Returns len(value); nullopt: it has none.
std::optional<Int> LengthOf(const Value& value);
// Returns the same; throws Error if it has none.
Int Length(const Value& value);

// Throws Error if it is undefined: in the words of the one that looks it up.
void RequireDefined(const Value& value);

}  // namespace espalier::jinja

#endif  // ESPALIER_COMMON_CHAT_JINJA_OPERATORS_H_
