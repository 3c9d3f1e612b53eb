#ifndef ESPALIER_COMMON_CHAT_JINJA_STRING_LITERAL_H_
#define ESPALIER_COMMON_CHAT_JINJA_STRING_LITERAL_H_

#include <string>

#include "common/chat/jinja/characters.h"

namespace espalier::jinja {

// The text of a literal, given what is between its quotes: Python's
// "unicode-escape". Sets `problem` where an escape is malformed.
Characters Unescaped(CharactersView literal, std::string& problem);

}  // namespace espalier::jinja

#endif  // ESPALIER_COMMON_CHAT_JINJA_STRING_LITERAL_H_
