#ifndef ESPALIER_COMMON_GRAMMAR_JSON_GRAMMAR_H_
#define ESPALIER_COMMON_GRAMMAR_JSON_GRAMMAR_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/grammar/expression.h"
#include "common/json/ordered_json.h"

namespace espalier::grammar {

// A grammar of JSON texts while it is made. Its texts are valid UTF-8 and end:
// between tokens there is at most one blank, or one line end and an indentation
// of at most kMaxIndentation blanks; numbers have bounded digits.
class JsonGrammar {
 public:
  static constexpr int64_t kMaxIndentation = 64;
  // The most tabs of an indentation that is made of tabs.
  static constexpr int64_t kMaxTabs = 16;

  // Compact: all in one line, with one blank after each colon and comma.
  explicit JsonGrammar(bool compact) : compact_(compact) {}

  RuleSet& rules() { return rules_; }

  // White space within brackets; the tokens between values, with theirs.
  ExpressionPtr Blank();
  ExpressionPtr Comma();
  ExpressionPtr Colon();

  // `inner` in brackets; empty text: nothing is in them.
  ExpressionPtr Bracketed(absl::string_view open, ExpressionPtr inner,
                          absl::string_view close);

  ExpressionPtr AnyValue();
  ExpressionPtr AnyObject();
  ExpressionPtr AnyArray();
  ExpressionPtr AnyString();
  // Returns the strings of `least` to `most` characters; most may be
  // Expression::kUnbounded.
  ExpressionPtr StringOfLength(int64_t least, int64_t most);
  // Returns a string whose characters match `content`, which has no rules.
  ExpressionPtr StringOf(const ExpressionPtr& content);
  // Exactly this value.
  ExpressionPtr Literal(const OrderedJson& value);
  // Returns a string that is none of these.
  ExpressionPtr StringExcept(const std::vector<std::string>& names);
  // Items between brackets.
  ExpressionPtr ArrayOf(const ExpressionPtr& item, int64_t least, int64_t most);
  // The same, and the first `fixed` items differ.
  ExpressionPtr TupleOf(const std::function<ExpressionPtr(size_t)>& item,
                        size_t fixed, int64_t least, int64_t most);

 private:
  // Returns a rule of its own, made at first use.
  template <typename Make>
  ExpressionPtr Shared(absl::string_view name, const Make& make);
  ExpressionPtr Character();
  ExpressionPtr RestOfString();  // after any of its characters

  const bool compact_;
  RuleSet rules_ = {{nullptr}};
  std::map<std::string, int64_t, std::less<>> shared_;
};

}  // namespace espalier::grammar

#endif  // ESPALIER_COMMON_GRAMMAR_JSON_GRAMMAR_H_
