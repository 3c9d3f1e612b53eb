#include "common/chat/jinja/parser.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/chat/jinja/error.h"
#include "common/chat/jinja/expression_parser.h"
#include "common/chat/jinja/statements.h"

namespace espalier::jinja {
namespace {

constexpr int kMaxStatementLevels = 100;  // of statements within statements
constexpr int kMaxTargetLevels = 20;

// What Jinja has and a chat template cannot use: there are no other templates.
class UnsupportedTag : public Statement {
 public:
  UnsupportedTag(int line, std::string tag)
      : Statement(line), tag_(std::move(tag)) {}

 private:
  Flow Run(Interpreter&) const override {
    throw Error(absl::StrCat("the tag '", tag_, "' is not supported"));
  }

  std::string tag_;
};

class Parser {
 public:
  explicit Parser(const std::vector<Token>& tokens)
      : tokens_(tokens), expressions_(tokens_) {}

  Body Run() {
    Body body = ParseBody({});
    expressions_.CheckNames();
    return body;
  }

 private:
  using Names = std::initializer_list<std::string_view>;
  using Soft = ExpressionParser::Soft;

  // Statements up to a tag that begins with one of `ends`, which stays the next
  // token; without `ends`, up to the end of the template.
  Body ParseBody(Names ends) {
    if (++levels_ > kMaxStatementLevels) tokens_.Fail("it nests too deeply");
    Body body;
    for (;;) {
      const Token& token = tokens_.current();
      if (token.type == Token::Type::kEnd) {
        if (ends.size() > 0) {
          tokens_.Fail(absl::StrCat("Unexpected end of template: expected '",
                                    std::string(*(ends.end() - 1)), "'"));
        }
        break;
      }
      tokens_.Take();
      if (token.type == Token::Type::kData) {
        body.push_back(std::make_unique<Data>(token.line, token.characters));
        continue;
      }
      expressions_.BeginTag();
      if (token.type == Token::Type::kVariableBegin) {
        body.push_back(std::make_unique<Output>(expressions_.ParseTuple()));
        tokens_.Expect(Token::Type::kVariableEnd, "end of print statement");
        continue;
      }
      if (token.type != Token::Type::kBlockBegin) tokens_.Unexpected();
      const auto is_next = [&](std::string_view name) {
        return tokens_.IsName(name);
      };
      if (std::any_of(ends.begin(), ends.end(), is_next)) break;
      ParseStatement(body);
      tokens_.Expect(Token::Type::kBlockEnd, "end of statement block");
    }
    --levels_;
    return body;
  }

  // Parses the rest of a tag, and the body after it.
  Body ParseBlockBody(Names ends) {
    tokens_.TakeOperator(":");
    tokens_.Expect(Token::Type::kBlockEnd, "end of statement block");
    return ParseBody(ends);
  }

  // ParseBlockBody with one end, which is taken.
  Body ParseWhole(std::string_view end) {
    Body body = ParseBlockBody({end});
    tokens_.Take();
    return body;
  }

  void ParseStatement(Body& body) {
    const Token& token = tokens_.current();
    if (token.type != Token::Type::kName) tokens_.Fail("tag name expected");
    const std::string& tag = token.text;
    tokens_.Take();
    if (tag == "if") return body.push_back(ParseIf(token.line));
    if (tag == "for") return body.push_back(ParseFor(token.line));
    if (tag == "set") return body.push_back(ParseSet(token.line));
    if (tag == "macro") return body.push_back(ParseMacro(token.line));
    if (tag == "call") return body.push_back(ParseCallBlock(token.line));
    if (tag == "with") return body.push_back(ParseWith(token.line));
    if (tag == "filter") return body.push_back(ParseFilter(token.line));
    if (tag == "block") return body.push_back(ParseBlock(token.line));
    if (tag == "generation") return body.push_back(ParseGeneration(token.line));
    if (tag == "break" || tag == "continue") {
      return body.push_back(ParseJump(token));
    }
    if (tag == "print") return ParsePrint(body);
    constexpr std::string_view kWithoutMeaning[] = {"include", "import", "from",
                                                    "extends"};
    if (std::find(std::begin(kWithoutMeaning), std::end(kWithoutMeaning),
                  tag) == std::end(kWithoutMeaning)) {
      Fail(token, absl::StrCat("Encountered unknown tag '", tag, "'."));
    }
    while (tokens_.current().type != Token::Type::kBlockEnd) {
      if (tokens_.current().type == Token::Type::kEnd) tokens_.Unexpected();
      tokens_.Take();
    }
    body.push_back(std::make_unique<UnsupportedTag>(token.line, tag));
  }

  [[noreturn]] static void Fail(const Token& token,
                                const std::string& problem) {
    Error error(problem);
    error.line = token.line;
    throw error;
  }

  StatementPtr ParseIf(int line) {
    const Soft soft(expressions_, true);
    std::vector<If::Branch> branches;
    for (;;) {
      ExpressionPtr condition =
          expressions_.ParseTuple(/*with_conditional=*/false);
      Body body = ParseBlockBody({"elif", "else", "endif"});
      branches.push_back({std::move(condition), std::move(body)});
      if (tokens_.TakeName("elif")) {
        expressions_.BeginTag();
        continue;
      }
      if (tokens_.Take().text == "else") {
        branches.push_back({nullptr, ParseWhole("endif")});
      }
      return std::make_unique<If>(line, std::move(branches));
    }
  }

  StatementPtr ParseFor(int line) {
    For::Parts parts;
    parts.target = ParseTarget("in", /*with_attribute=*/false);
    tokens_.ExpectName("in");
    parts.iterable =
        expressions_.ParseTuple(/*with_conditional=*/false, "recursive");
    const Soft soft(expressions_, false);
    if (tokens_.TakeName("if")) {
      parts.condition = expressions_.ParseExpression();
    }
    parts.recursive = tokens_.TakeName("recursive");
    ++loops_;
    parts.body = ParseBlockBody({"else", "endfor"});
    --loops_;
    if (tokens_.Take().text == "else") parts.otherwise = ParseWhole("endfor");
    return std::make_unique<For>(line, std::move(parts));
  }

  StatementPtr ParseSet(int line) {
    Target target = ParseTarget({}, /*with_attribute=*/true);
    if (tokens_.TakeOperator("=")) {
      return std::make_unique<Set>(line, std::move(target),
                                   expressions_.ParseTuple());
    }
    std::unique_ptr<FilterOf> filter = expressions_.ParseFilters();
    const Soft soft(expressions_, false);
    return std::make_unique<SetBlock>(line, std::move(target),
                                      std::move(filter), ParseWhole("endset"));
  }

  StatementPtr ParseWith(int line) {
    With::Values values;
    while (tokens_.current().type != Token::Type::kBlockEnd) {
      if (!values.empty()) tokens_.ExpectOperator(",");
      Target target = ParseTarget({}, /*with_attribute=*/false);
      tokens_.ExpectOperator("=");
      values.emplace_back(std::move(target), expressions_.ParseExpression());
    }
    const Soft soft(expressions_, false);
    return std::make_unique<With>(line, std::move(values),
                                  ParseWhole("endwith"));
  }

  StatementPtr ParseFilter(int line) {
    const Soft soft(expressions_, false);
    std::unique_ptr<FilterOf> filter = expressions_.ParseFilterOfBlock();
    return std::make_unique<FilterBlock>(line, std::move(filter),
                                         ParseWhole("endfilter"));
  }

  StatementPtr ParseGeneration(int line) {
    return std::make_unique<Block>(line, ParseFunctionBody("endgeneration"));
  }

  StatementPtr ParseBlock(int line) {
    const std::string name = tokens_.ExpectAnyName();
    tokens_.TakeName("scoped");
    tokens_.TakeName("required");
    Body body = ParseFunctionBody("endblock");
    tokens_.TakeName(name);
    return std::make_unique<Block>(line, std::move(body));
  }

  // Parses the body of a function in Python: loops around it cannot be left
  // from it.
  Body ParseFunctionBody(std::string_view end) {
    const Soft soft(expressions_, false);
    const int loops = std::exchange(loops_, 0);
    Body body = ParseWhole(end);
    loops_ = loops;
    return body;
  }

  void ParseSignature(Signature& signature) {
    tokens_.ExpectOperator("(");
    while (!tokens_.IsOperator(")")) {
      if (!signature.parameters.empty()) tokens_.ExpectOperator(",");
      signature.parameters.push_back(tokens_.ExpectAnyName());
      if (tokens_.TakeOperator("=")) {
        signature.defaults.push_back(expressions_.ParseExpression());
      } else if (!signature.defaults.empty()) {
        tokens_.Fail("non-default argument follows default argument");
      }
    }
    tokens_.ExpectOperator(")");
  }

  StatementPtr ParseMacro(int line) {
    auto code = std::make_shared<MacroCode>();
    const ExpressionParser::Uses uses(expressions_, code->signature);
    code->name = tokens_.ExpectAnyName();
    ParseSignature(code->signature);
    code->body = ParseFunctionBody("endmacro");
    return std::make_unique<MacroStatement>(line, std::move(code));
  }

  StatementPtr ParseCallBlock(int line) {
    auto code = std::make_shared<MacroCode>();
    const ExpressionParser::Uses uses(expressions_, code->signature);
    if (tokens_.IsOperator("(")) ParseSignature(code->signature);
    ExpressionPtr call = expressions_.ParseExpression();
    auto* as_call = dynamic_cast<CallOf*>(call.get());
    if (as_call == nullptr) tokens_.Fail("expected call");
    (void)call.release();
    std::unique_ptr<CallOf> owned(as_call);
    code->body = ParseFunctionBody("endcall");
    return std::make_unique<CallBlock>(line, std::move(code), std::move(owned));
  }

  StatementPtr ParseJump(const Token& token) {
    if (loops_ == 0) {
      Fail(token, absl::StrCat("'", token.text, "' outside loop"));
    }
    return std::make_unique<Jump>(
        token.line, token.text == "break" ? Flow::kBreak : Flow::kContinue);
  }

  void ParsePrint(Body& body) {
    bool first = true;
    while (tokens_.current().type != Token::Type::kBlockEnd) {
      if (!first) tokens_.ExpectOperator(",");
      first = false;
      body.push_back(std::make_unique<Output>(expressions_.ParseExpression()));
    }
  }

  // `end`: the name after the target.
  Target ParseTarget(std::string_view end, bool with_attribute, int level = 0) {
    if (level > kMaxTargetLevels) tokens_.Fail("it nests too deeply");
    Target tuple;
    tuple.is_tuple = true;
    tuple.line = tokens_.current().line;
    bool comma = false;
    while (tokens_.current().type != Token::Type::kBlockEnd &&
           !tokens_.IsOperator(")") && (end.empty() || !tokens_.IsName(end))) {
      tuple.tuple.push_back(ParseOneTarget(with_attribute, level));
      if (!tokens_.TakeOperator(",")) break;
      comma = true;
    }
    if (!comma && tuple.tuple.size() == 1) {
      Target only = std::move(tuple.tuple[0]);
      return only;
    }
    if (tuple.tuple.empty() && level == 0) {
      tokens_.Fail("Expected an expression");
    }
    return tuple;
  }

  Target ParseOneTarget(bool with_attribute, int level) {
    if (tokens_.TakeOperator("(")) {
      Target inner = ParseTarget({}, with_attribute, level + 1);
      tokens_.ExpectOperator(")");
      return inner;
    }
    Target target;
    target.line = tokens_.current().line;
    if (tokens_.current().type != Token::Type::kName) {
      tokens_.Fail("can't assign to this expression");
    }
    target.name = tokens_.Take().text;
    constexpr std::string_view kConstants[] = {"true",  "True", "false",
                                               "False", "none", "None"};
    if (std::find(std::begin(kConstants), std::end(kConstants), target.name) !=
        std::end(kConstants)) {
      tokens_.Fail("can't assign to 'const'");
    }
    if (with_attribute && tokens_.TakeOperator(".")) {
      target.attribute = tokens_.ExpectAnyName();
    }
    return target;
  }

  TokenStream tokens_;
  ExpressionParser expressions_;
  int levels_ = 0;
  int loops_ = 0;  // around the statement, within its function
};

}  // namespace

Body Parse(const std::vector<Token>& tokens) { return Parser(tokens).Run(); }

}  // namespace espalier::jinja
