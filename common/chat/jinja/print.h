#ifndef ESPALIER_COMMON_CHAT_JINJA_PRINT_H_
#define ESPALIER_COMMON_CHAT_JINJA_PRINT_H_

#include <string_view>

#include "common/chat/jinja/interpreter.h"
#include "common/chat/jinja/value.h"

namespace espalier::jinja {

// str(value). Undefined is empty.
Characters Str(Interpreter& interpreter, const Value& value);
// Appends repr(value). `depth`: of the values around it.
void AppendRepr(Interpreter& interpreter, const Value& value, int depth,
                Characters& out);
// repr of a text, for errors.
std::string Quoted(CharactersView text);

void AppendAscii(std::string_view ascii, Characters& out);
// "\xe9", "\u20ac" or "\U0001f333", with the mark of `c`.
void AppendEscape(char32_t c, Characters& out);

struct JsonOptions {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<Characters> indent;  // of one level; null: all in one line
  std::optional<Characters> item_separator;
  Characters key_separator = U": ";
};

// json.dumps.
Characters ToJson(Interpreter& interpreter, const Value& value,
                  const JsonOptions& options);

}  // namespace espalier::jinja

#endif  // ESPALIER_COMMON_CHAT_JINJA_PRINT_H_
