#ifndef ESPALIER_COMMON_CHAT_JINJA_FORMAT_H_
#define ESPALIER_COMMON_CHAT_JINJA_FORMAT_H_

#include <optional>

#include "common/chat/jinja/interpreter.h"
#include "common/chat/jinja/object.h"
#include "common/chat/jinja/value.h"

namespace espalier::jinja {

// How one value is formatted: Python's format specification.
struct FormatSpec {
  char32_t fill = U' ';
  char align = 0;  // '<', '>', '^' or '='; 0: as its type has it
  char sign = '-';
  bool alternate = false;  // "#"
  char grouping = 0;       // ',' or '_'
  size_t width = 0;
  std::optional<int> precision;
  char type = 0;  // 0: as its type has it
};

// Throws Error: the specification is malformed, or not for this type.
Characters FormatValue(Interpreter& interpreter, const Value& value,
                       const FormatSpec& spec);

// text % arguments.
Value FormatPercent(Interpreter& interpreter, const Value& text,
                    const Value& arguments);
// text.format(...).
Value FormatBraces(Interpreter& interpreter, const Value& text,
                   const CallArguments& arguments);

}  // namespace espalier::jinja

#endif  // ESPALIER_COMMON_CHAT_JINJA_FORMAT_H_
