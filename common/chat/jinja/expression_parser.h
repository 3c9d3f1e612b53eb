#ifndef ESPALIER_COMMON_CHAT_JINJA_EXPRESSION_PARSER_H_
#define ESPALIER_COMMON_CHAT_JINJA_EXPRESSION_PARSER_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/chat/jinja/ast.h"
#include "common/chat/jinja/expressions.h"
#include "common/chat/jinja/token_stream.h"

namespace espalier::jinja {

// Parses expressions by Jinja's grammar, and keeps what the statements around
// them need to know. All throw Error.
class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  ExpressionPtr ParseExpression(bool with_conditional = true);
  // Several with commas between them are a tuple. `end`: a name that ends it.
  ExpressionPtr ParseTuple(bool with_conditional = true,
                           std::string_view end = {},
                           bool in_parentheses = false);
  // "| a | b": null if there is none.
  std::unique_ptr<FilterOf> ParseFilters();
  // "a | b", which is applied to a block's text.
  std::unique_ptr<FilterOf> ParseFilterOfBlock();

  // Begins a tag: the links of chains are counted for each tag.
  void BeginTag() { links_ = 0; }

  // While one exists, a filter or test that there is not fails only where it
  // is executed; as Jinja does within `if`.
  class Soft {
   public:
    Soft(ExpressionParser& parser, bool soft)
        : parser_(parser), before_(parser.soft_) {
      parser.soft_ = soft;
    }
    ~Soft() { parser_.soft_ = before_; }
    Soft(const Soft&) = delete;
    Soft& operator=(const Soft&) = delete;

   private:
    ExpressionParser& parser_;
    bool before_;
  };

  // While one exists, names are noted in `signature`.
  class Uses {
   public:
    Uses(ExpressionParser& parser, Signature& signature) : parser_(parser) {
      parser.signatures_.push_back(&signature);
    }
    ~Uses() { parser_.signatures_.pop_back(); }
    Uses(const Uses&) = delete;
    Uses& operator=(const Uses&) = delete;

   private:
    ExpressionParser& parser_;
  };

  // Throws Error: the first filter or test that there is not.
  void CheckNames() const;

 private:
  friend class Level;
  struct UnknownName {
    std::string problem;
    int line;
    bool soft;
  };
  using Parse = ExpressionPtr (ExpressionParser::*)();

  ExpressionPtr ParseConditional();
  ExpressionPtr ParseOr();
  ExpressionPtr ParseAnd();
  ExpressionPtr ParseNot();
  ExpressionPtr ParseComparison();
  ExpressionPtr ParseSum();
  ExpressionPtr ParseConcatenation();
  ExpressionPtr ParseProduct();
  ExpressionPtr ParsePower();
  ExpressionPtr ParseUnary(bool with_filters);
  ExpressionPtr ParseOperand() { return ParseUnary(/*with_filters=*/true); }
  ExpressionPtr ParseChain(std::initializer_list<std::string_view> operators,
                           Parse parse);
  ExpressionPtr ParsePrimary();
  ExpressionPtr ParseNameOrConstant();
  ExpressionPtr ParseList();
  ExpressionPtr ParseDict();
  ExpressionPtr ParsePostfix(ExpressionPtr node);
  ExpressionPtr ParseSubscript(ExpressionPtr node);
  ExpressionPtr ParseAttribute(ExpressionPtr node);
  ExpressionPtr ParseCall(ExpressionPtr node);
  ExpressionPtr ParseFiltersAndTests(ExpressionPtr node);
  std::unique_ptr<FilterOf> ParseFilter(ExpressionPtr node);
  ExpressionPtr ParseTest(ExpressionPtr node);
  bool TestHasArgument() const;
  ArgumentList ParseArguments();
  std::string ParseDottedName();
  void NoteName(const std::string& name);
  void NoteFilterOrTest(const std::string& name, bool is_filter, int line);
  // Counts what makes the tree deeper without nesting.
  void Link();

  TokenStream& tokens_;
  int levels_ = 0;
  int links_ = 0;
  bool soft_ = false;
  std::vector<UnknownName> unknown_;
  std::vector<Signature*> signatures_;
};

}  // namespace espalier::jinja

#endif  // ESPALIER_COMMON_CHAT_JINJA_EXPRESSION_PARSER_H_
