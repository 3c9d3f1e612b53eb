#ifndef ESPALIER_COMMON_CHAT_JINJA_TOKEN_STREAM_H_
#define ESPALIER_COMMON_CHAT_JINJA_TOKEN_STREAM_H_

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "common/chat/jinja/lexer.h"

namespace espalier::jinja {

// The tokens that are still to be parsed. Borrows them.
class TokenStream {
 public:
  explicit TokenStream(const std::vector<Token>& tokens) : tokens_(tokens) {}

  const Token& current() const { return tokens_[at_]; }
  const Token& ahead() const {
    return tokens_[std::min(at_ + 1, tokens_.size() - 1)];
  }
  const Token& Take() {
    const Token& token = current();
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }

  bool IsName(std::string_view name) const { return current().IsName(name); }
  bool IsOperator(std::string_view op) const {
    return current().IsOperator(op);
  }
  bool TakeName(std::string_view name) {
    if (!IsName(name)) return false;
    Take();
    return true;
  }
  bool TakeOperator(std::string_view op) {
    if (!IsOperator(op)) return false;
    Take();
    return true;
  }

  // Throw Error: something else is there.
  void ExpectName(std::string_view name);
  void ExpectOperator(std::string_view op);
  std::string ExpectAnyName();
  void Expect(Token::Type type, std::string_view shown);

  [[noreturn]] void Fail(const std::string& problem) const;
  [[noreturn]] void Unexpected() const;

 private:
  const std::vector<Token>& tokens_;
  size_t at_ = 0;
};

}  // namespace espalier::jinja

#endif  // ESPALIER_COMMON_CHAT_JINJA_TOKEN_STREAM_H_
