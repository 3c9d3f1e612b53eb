#ifndef ESPALIER_COMMON_CHAT_JINJA_PARSER_H_
#define ESPALIER_COMMON_CHAT_JINJA_PARSER_H_

#include <vector>

#include "common/chat/jinja/ast.h"
#include "common/chat/jinja/lexer.h"

namespace espalier::jinja {

// Parses the statements of a template. Throws Error with its line: not a
// template, a filter or a test that there is not, or nested too deeply.
Body Parse(const std::vector<Token>& tokens);

}  // namespace espalier::jinja

#endif  // ESPALIER_COMMON_CHAT_JINJA_PARSER_H_
