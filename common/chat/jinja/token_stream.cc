#include "common/chat/jinja/token_stream.h"

#include "absl/strings/str_cat.h"
#include "common/chat/jinja/error.h"

namespace espalier::jinja {
namespace {

std::string Shown(const Token& token) {
  switch (token.type) {
    case Token::Type::kEnd:
      return "end of template";
    case Token::Type::kVariableBegin:
      return "{{";
    case Token::Type::kVariableEnd:
      return "end of print statement";
    case Token::Type::kBlockBegin:
      return "{%";
    case Token::Type::kBlockEnd:
      return "end of statement block";
    case Token::Type::kData:
      return "text";
    case Token::Type::kString:
      return "a string";
    case Token::Type::kNumber:
      return "a number";
    default:
      return token.text;
  }
}

}  // namespace

void TokenStream::ExpectName(std::string_view name) {
  if (!TakeName(name)) {
    Fail(absl::StrCat("expected token '", std::string(name), "', got '",
                      Shown(current()), "'"));
  }
}

void TokenStream::ExpectOperator(std::string_view op) {
  if (!TakeOperator(op)) {
    Fail(absl::StrCat("expected token '", std::string(op), "', got '",
                      Shown(current()), "'"));
  }
}

std::string TokenStream::ExpectAnyName() {
  if (current().type != Token::Type::kName) {
    Fail(absl::StrCat("expected token 'name', got '", Shown(current()), "'"));
  }
  return Take().text;
}

void TokenStream::Expect(Token::Type type, std::string_view shown) {
  if (current().type != type) {
    Fail(absl::StrCat("expected token '", std::string(shown), "', got '",
                      Shown(current()), "'"));
  }
  Take();
}

void TokenStream::Fail(const std::string& problem) const {
  Error error(problem);
  error.line = current().line;
  throw error;
}

void TokenStream::Unexpected() const {
  Fail(absl::StrCat("unexpected '", Shown(current()), "'"));
}

}  // namespace espalier::jinja
