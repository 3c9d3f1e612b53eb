#ifndef ESPALIER_COMMON_CHAT_JINJA_GLOBALS_H_
#define ESPALIER_COMMON_CHAT_JINJA_GLOBALS_H_

#include "common/chat/jinja/interpreter.h"

namespace espalier::jinja {

// Adds Jinja's functions, and those of transformers: raise_exception and
// strftime_now.
void AddGlobals(Interpreter& interpreter);

}  // namespace espalier::jinja

#endif  // ESPALIER_COMMON_CHAT_JINJA_GLOBALS_H_
