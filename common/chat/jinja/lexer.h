#ifndef ESPALIER_COMMON_CHAT_JINJA_LEXER_H_
#define ESPALIER_COMMON_CHAT_JINJA_LEXER_H_

#include <string>
#include <vector>

#include "common/chat/jinja/characters.h"
#include "common/chat/jinja/value.h"

namespace espalier::jinja {

struct Token {
  enum class Type {
    kData,  // text outside of tags, white space already trimmed
    kVariableBegin,
    kVariableEnd,
    kBlockBegin,
    kBlockEnd,
    kName,
    kString,
    kNumber,
    kOperator,
    kEnd,
  };

  Type type = Type::kEnd;
  std::string text;       // of a name or an operator
  Characters characters;  // of data or a string
  Value number;
  int line = 1;

  bool Is(Type t, std::string_view value) const {
    return type == t && text == value;
  }
  bool IsName(std::string_view name) const { return Is(Type::kName, name); }
  bool IsOperator(std::string_view op) const { return Is(Type::kOperator, op); }
};

// Returns the tokens of a template, with trim_blocks and lstrip_blocks, and
// kEnd as the last one. Throws Error with its line.
std::vector<Token> Tokenize(std::string_view source);

}  // namespace espalier::jinja

#endif  // ESPALIER_COMMON_CHAT_JINJA_LEXER_H_
