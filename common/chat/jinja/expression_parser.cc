#include "common/chat/jinja/expression_parser.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/chat/jinja/error.h"
#include "common/chat/jinja/filters.h"

namespace espalier::jinja {
namespace {

// Each takes the stack of about fifteen functions.
constexpr int kMaxExpressionLevels = 100;
constexpr int kMaxLinks = 4000;

}  // namespace

// An expression within another one.
class Level {
 public:
  explicit Level(ExpressionParser& parser) : parser_(parser) {
    if (parser.levels_ >= kMaxExpressionLevels) {
      parser.tokens_.Fail("it nests too deeply");
    }
    ++parser.levels_;
  }
  ~Level() { --parser_.levels_; }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

 private:
  ExpressionParser& parser_;
};

void ExpressionParser::Link() {
  if (++links_ > kMaxLinks) tokens_.Fail("a tag of it is too long");
}

void ExpressionParser::NoteName(const std::string& name) {
  for (Signature* signature : signatures_) {
    signature->uses_caller |= name == "caller";
    signature->uses_named |= name == "kwargs";
    signature->uses_positional |= name == "varargs";
  }
}

void ExpressionParser::NoteFilterOrTest(const std::string& name, bool is_filter,
                                        int line) {
  const bool known =
      is_filter ? FindFilter(name) != nullptr : FindTest(name) != nullptr;
  if (known) return;
  unknown_.push_back({absl::StrCat("No ", is_filter ? "filter" : "test",
                                   " named '", name, "'."),
                      line, soft_});
}

void ExpressionParser::CheckNames() const {
  for (const UnknownName& name : unknown_) {
    if (name.soft) continue;
    Error error(name.problem);
    error.line = name.line;
    throw error;
  }
}

ExpressionPtr ExpressionParser::ParseExpression(bool with_conditional) {
  const Level level(*this);
  return with_conditional ? ParseConditional() : ParseOr();
}

ExpressionPtr ExpressionParser::ParseTuple(bool with_conditional,
                                           std::string_view end,
                                           bool in_parentheses) {
  const int line = tokens_.current().line;
  const auto ends = [&] {
    const Token& token = tokens_.current();
    return token.type == Token::Type::kVariableEnd ||
           token.type == Token::Type::kBlockEnd || token.IsOperator(")") ||
           (!end.empty() && token.IsName(end));
  };
  std::vector<ExpressionPtr> items;
  bool is_tuple = false;
  while (!ends()) {
    items.push_back(ParseExpression(with_conditional));
    if (!tokens_.TakeOperator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && items.size() == 1) return std::move(items[0]);
  if (items.empty() && !in_parentheses) {
    tokens_.Fail("Expected an expression");
  }
  return std::make_unique<SequenceLiteral>(line, Sequence::Kind::kTuple,
                                           std::move(items));
}

ExpressionPtr ExpressionParser::ParseConditional() {
  const size_t first_unknown = unknown_.size();
  int line = tokens_.current().line;
  ExpressionPtr node = ParseOr();
  while (tokens_.TakeName("if")) {
    Link();
    ExpressionPtr condition = ParseOr();
    ExpressionPtr otherwise;
    if (tokens_.TakeName("else")) {
      const Level level(*this);
      otherwise = ParseConditional();
    }
    node = std::make_unique<Conditional>(line, std::move(condition),
                                         std::move(node), std::move(otherwise));
    line = tokens_.current().line;
    for (size_t i = first_unknown; i < unknown_.size(); ++i) {
      unknown_[i].soft = true;
    }
  }
  return node;
}

ExpressionPtr ExpressionParser::ParseOr() {
  ExpressionPtr left = ParseAnd();
  while (tokens_.IsName("or")) {
    Link();
    const int line = tokens_.Take().line;
    left = std::make_unique<Logic>(line, /*is_and=*/false, std::move(left),
                                   ParseAnd());
  }
  return left;
}

ExpressionPtr ExpressionParser::ParseAnd() {
  ExpressionPtr left = ParseNot();
  while (tokens_.IsName("and")) {
    Link();
    const int line = tokens_.Take().line;
    left = std::make_unique<Logic>(line, /*is_and=*/true, std::move(left),
                                   ParseNot());
  }
  return left;
}

ExpressionPtr ExpressionParser::ParseNot() {
  if (!tokens_.IsName("not")) return ParseComparison();
  const Level level(*this);
  const int line = tokens_.Take().line;
  return std::make_unique<Unary>(line, "not", ParseNot());
}

ExpressionPtr ExpressionParser::ParseComparison() {
  constexpr std::string_view kOperators[] = {"==", "!=", "<", "<=", ">", ">="};
  const int line = tokens_.current().line;
  ExpressionPtr first = ParseSum();
  Comparison::Rest rest;
  for (;;) {
    const Token& token = tokens_.current();
    std::string op;
    if (token.type == Token::Type::kOperator &&
        std::find(std::begin(kOperators), std::end(kOperators), token.text) !=
            std::end(kOperators)) {
      op = token.text;
    } else if (token.IsName("in")) {
      op = "in";
    } else if (token.IsName("not") && tokens_.ahead().IsName("in")) {
      op = "not in";
      tokens_.Take();
    } else {
      break;
    }
    tokens_.Take();
    rest.emplace_back(op, ParseSum());
  }
  if (rest.empty()) return first;
  return std::make_unique<Comparison>(line, std::move(first), std::move(rest));
}

ExpressionPtr ExpressionParser::ParseChain(
    std::initializer_list<std::string_view> operators, Parse parse) {
  ExpressionPtr left = (this->*parse)();
  for (;;) {
    const Token& token = tokens_.current();
    if (token.type != Token::Type::kOperator ||
        std::find(operators.begin(), operators.end(), token.text) ==
            operators.end()) {
      return left;
    }
    Link();
    tokens_.Take();
    left = std::make_unique<Binary>(token.line, token.text, std::move(left),
                                    (this->*parse)());
  }
}

ExpressionPtr ExpressionParser::ParseSum() {
  return ParseChain({"+", "-"}, &ExpressionParser::ParseConcatenation);
}

ExpressionPtr ExpressionParser::ParseConcatenation() {
  const int line = tokens_.current().line;
  std::vector<ExpressionPtr> parts;
  do {
    parts.push_back(ParseProduct());
  } while (tokens_.TakeOperator("~"));
  if (parts.size() == 1) return std::move(parts[0]);
  return std::make_unique<Concatenation>(line, std::move(parts));
}

ExpressionPtr ExpressionParser::ParseProduct() {
  return ParseChain({"*", "/", "//", "%"}, &ExpressionParser::ParsePower);
}

ExpressionPtr ExpressionParser::ParsePower() {
  return ParseChain({"**"}, &ExpressionParser::ParseOperand);
}

ExpressionPtr ExpressionParser::ParseUnary(bool with_filters) {
  ExpressionPtr node;
  if (tokens_.IsOperator("-") || tokens_.IsOperator("+")) {
    const Level level(*this);
    const Token& token = tokens_.Take();
    node = std::make_unique<Unary>(token.line, token.text,
                                   ParseUnary(/*with_filters=*/false));
  } else {
    node = ParsePrimary();
  }
  node = ParsePostfix(std::move(node));
  return with_filters ? ParseFiltersAndTests(std::move(node)) : std::move(node);
}

ExpressionPtr ExpressionParser::ParseNameOrConstant() {
  const Token& token = tokens_.Take();
  const std::string& name = token.text;
  if (name == "true" || name == "True" || name == "false" || name == "False") {
    const bool value = name == "true" || name == "True";
    return std::make_unique<Constant>(token.line, Value::Bool(value));
  }
  if (name == "none" || name == "None") {
    return std::make_unique<Constant>(token.line, Value());
  }
  NoteName(name);
  return std::make_unique<Name>(token.line, name);
}

ExpressionPtr ExpressionParser::ParsePrimary() {
  const Token& token = tokens_.current();
  if (token.type == Token::Type::kName) return ParseNameOrConstant();
  if (token.type == Token::Type::kNumber) {
    tokens_.Take();
    return std::make_unique<Constant>(token.line, token.number);
  }
  if (token.type == Token::Type::kString) {
    Characters text;
    while (tokens_.current().type == Token::Type::kString) {
      text.append(tokens_.Take().characters);
    }
    return std::make_unique<Constant>(token.line,
                                      ConstantText(std::move(text)));
  }
  if (token.IsOperator("[")) return ParseList();
  if (token.IsOperator("{")) return ParseDict();
  if (!tokens_.TakeOperator("(")) tokens_.Unexpected();
  ExpressionPtr node = ParseTuple(/*with_conditional=*/true, /*end=*/{},
                                  /*in_parentheses=*/true);
  tokens_.ExpectOperator(")");
  return node;
}

ExpressionPtr ExpressionParser::ParseList() {
  const int line = tokens_.Take().line;
  std::vector<ExpressionPtr> items;
  while (!tokens_.IsOperator("]")) {
    if (!items.empty()) {
      tokens_.ExpectOperator(",");
      if (tokens_.IsOperator("]")) break;
    }
    items.push_back(ParseExpression());
  }
  tokens_.ExpectOperator("]");
  return std::make_unique<SequenceLiteral>(line, Sequence::Kind::kList,
                                           std::move(items));
}

ExpressionPtr ExpressionParser::ParseDict() {
  const int line = tokens_.Take().line;
  DictLiteral::Items items;
  while (!tokens_.IsOperator("}")) {
    if (!items.empty()) {
      tokens_.ExpectOperator(",");
      if (tokens_.IsOperator("}")) break;
    }
    ExpressionPtr key = ParseExpression();
    tokens_.ExpectOperator(":");
    items.emplace_back(std::move(key), ParseExpression());
  }
  tokens_.ExpectOperator("}");
  return std::make_unique<DictLiteral>(line, std::move(items));
}

ExpressionPtr ExpressionParser::ParsePostfix(ExpressionPtr node) {
  for (;;) {
    if (tokens_.IsOperator(".")) {
      node = ParseAttribute(std::move(node));
    } else if (tokens_.IsOperator("[")) {
      node = ParseSubscript(std::move(node));
    } else if (tokens_.IsOperator("(")) {
      node = ParseCall(std::move(node));
    } else {
      return node;
    }
    Link();
  }
}

ExpressionPtr ExpressionParser::ParseAttribute(ExpressionPtr node) {
  const int line = tokens_.Take().line;
  const Token& token = tokens_.Take();
  if (token.type == Token::Type::kName) {
    return std::make_unique<AttributeOf>(line, std::move(node), token.text);
  }
  if (token.type != Token::Type::kNumber || !token.number.IsInt()) {
    tokens_.Fail("expected name or number");
  }
  return std::make_unique<ItemOf>(
      line, std::move(node), std::make_unique<Constant>(line, token.number));
}

ExpressionPtr ExpressionParser::ParseSubscript(ExpressionPtr node) {
  const int line = tokens_.Take().line;
  const auto bound = [&]() -> ExpressionPtr {
    const bool none = tokens_.IsOperator(":") || tokens_.IsOperator("]");
    return none ? nullptr : ParseExpression();
  };
  ExpressionPtr first = bound();
  if (tokens_.TakeOperator(":")) {
    ExpressionPtr stop = bound();
    ExpressionPtr step;
    if (tokens_.TakeOperator(":")) step = bound();
    tokens_.ExpectOperator("]");
    return std::make_unique<SliceOf>(line, std::move(node), std::move(first),
                                     std::move(stop), std::move(step));
  }
  // a[b, c] has a tuple as its key, and a[] an empty one.
  if (first == nullptr || tokens_.IsOperator(",")) {
    std::vector<ExpressionPtr> keys;
    if (first != nullptr) keys.push_back(std::move(first));
    while (tokens_.TakeOperator(",")) keys.push_back(ParseExpression());
    first = std::make_unique<SequenceLiteral>(line, Sequence::Kind::kTuple,
                                              std::move(keys));
  }
  tokens_.ExpectOperator("]");
  return std::make_unique<ItemOf>(line, std::move(node), std::move(first));
}

ExpressionPtr ExpressionParser::ParseCall(ExpressionPtr node) {
  const int line = tokens_.current().line;
  return std::make_unique<CallOf>(line, std::move(node), ParseArguments());
}

ArgumentList ExpressionParser::ParseArguments() {
  tokens_.ExpectOperator("(");
  ArgumentList arguments;
  bool first = true;
  const auto ensure = [&](bool fits) {
    if (!fits) tokens_.Fail("invalid syntax for function call expression");
  };
  while (!tokens_.IsOperator(")")) {
    if (!first) {
      tokens_.ExpectOperator(",");
      if (tokens_.IsOperator(")")) break;
    }
    first = false;
    if (tokens_.TakeOperator("*")) {
      ensure(!arguments.more_positional && !arguments.more_named);
      arguments.more_positional = ParseExpression();
    } else if (tokens_.TakeOperator("**")) {
      ensure(!arguments.more_named);
      arguments.more_named = ParseExpression();
    } else if (tokens_.current().type == Token::Type::kName &&
               tokens_.ahead().IsOperator("=")) {
      ensure(!arguments.more_named);
      std::string name = tokens_.Take().text;
      tokens_.Take();
      for (const auto& [known, ignored] : arguments.named) {
        if (known == name) tokens_.Fail("keyword argument repeated");
      }
      arguments.named.emplace_back(std::move(name), ParseExpression());
    } else {
      ensure(!arguments.more_positional && !arguments.more_named &&
             arguments.named.empty());
      arguments.positional.push_back(ParseExpression());
    }
  }
  tokens_.ExpectOperator(")");
  return arguments;
}

ExpressionPtr ExpressionParser::ParseFiltersAndTests(ExpressionPtr node) {
  for (;;) {
    if (tokens_.TakeOperator("|")) {
      node = ParseFilter(std::move(node));
    } else if (tokens_.IsName("is")) {
      node = ParseTest(std::move(node));
    } else if (tokens_.IsOperator("(")) {
      node = ParseCall(std::move(node));
    } else {
      return node;
    }
    Link();
  }
}

std::string ExpressionParser::ParseDottedName() {
  std::string name = tokens_.ExpectAnyName();
  while (tokens_.TakeOperator(".")) {
    absl::StrAppend(&name, ".", tokens_.ExpectAnyName());
  }
  return name;
}

std::unique_ptr<FilterOf> ExpressionParser::ParseFilter(ExpressionPtr node) {
  const int line = tokens_.current().line;
  std::string name = ParseDottedName();
  NoteFilterOrTest(name, /*is_filter=*/true, line);
  ArgumentList arguments;
  if (tokens_.IsOperator("(")) arguments = ParseArguments();
  return std::make_unique<FilterOf>(line, std::move(node), std::move(name),
                                    std::move(arguments));
}

std::unique_ptr<FilterOf> ExpressionParser::ParseFilters() {
  std::unique_ptr<FilterOf> node;
  while (tokens_.TakeOperator("|")) {
    Link();
    node = ParseFilter(std::move(node));
  }
  return node;
}

std::unique_ptr<FilterOf> ExpressionParser::ParseFilterOfBlock() {
  std::unique_ptr<FilterOf> node = ParseFilter(nullptr);
  while (tokens_.TakeOperator("|")) {
    Link();
    node = ParseFilter(std::move(node));
  }
  return node;
}

bool ExpressionParser::TestHasArgument() const {
  const Token& token = tokens_.current();
  switch (token.type) {
    case Token::Type::kName:
      return !token.IsName("else") && !token.IsName("or") &&
             !token.IsName("and");
    case Token::Type::kString:
    case Token::Type::kNumber:
      return true;
    default:
      return token.IsOperator("[") || token.IsOperator("{");
  }
}

ExpressionPtr ExpressionParser::ParseTest(ExpressionPtr node) {
  const int line = tokens_.Take().line;
  const bool negated = tokens_.TakeName("not");
  std::string name = ParseDottedName();
  NoteFilterOrTest(name, /*is_filter=*/false, line);
  ArgumentList arguments;
  if (tokens_.IsOperator("(")) {
    arguments = ParseArguments();
  } else if (TestHasArgument()) {
    if (tokens_.IsName("is")) {
      tokens_.Fail("You cannot chain multiple tests with is");
    }
    const Level level(*this);
    arguments.positional.push_back(ParsePostfix(ParsePrimary()));
  }
  node = std::make_unique<TestOf>(line, std::move(node), std::move(name),
                                  std::move(arguments));
  if (!negated) return node;
  return std::make_unique<Unary>(line, "not", std::move(node));
}

}  // namespace espalier::jinja
