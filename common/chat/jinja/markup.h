#ifndef ESPALIER_COMMON_CHAT_JINJA_MARKUP_H_
#define ESPALIER_COMMON_CHAT_JINJA_MARKUP_H_

#include "common/chat/jinja/interpreter.h"
#include "common/chat/jinja/value.h"

namespace espalier::jinja {

// str(value) with HTML's five characters escaped; what is Markup stays as it
// is.
Characters EscapeUnlessMarkup(Interpreter& interpreter, const Value& value);
Characters Escape(Interpreter& interpreter, CharactersView text);

}  // namespace espalier::jinja

#endif  // ESPALIER_COMMON_CHAT_JINJA_MARKUP_H_
