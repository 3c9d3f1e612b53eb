// RuleSet::ToEbnf.
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/grammar/expression.h"

namespace espalier::grammar {
namespace {

using Kind = Expression::Kind;

void AppendQuoted(absl::string_view text, std::string& out) {
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<uint8_t>(c) < 0x20 || c == 0x7F) {
      absl::StrAppendFormat(&out, "\\U%08x", static_cast<uint8_t>(c));
    } else {
      out += c;
    }
  }
  out += '"';
}

void AppendClass(const CodePoints& characters, std::string& out) {
  out += '[';
  for (const CodePoints::Range& range : characters.ranges()) {
    absl::StrAppendFormat(&out, "\\U%08x", range.first);
    if (range.last > range.first) {
      absl::StrAppendFormat(&out, "-\\U%08x", range.last);
    }
  }
  out += ']';
}

std::string RuleName(int64_t number) {
  return number == 0 ? "root" : absl::StrCat("r", number);
}

// Writes rules as xgrammar reads them. xgrammar knows in advance which tokens
// fit a rule as long as these do not outlast the rule; others are parsed for
// each mask. So a repetition of characters is rules that go on themselves:
// any ::= "" | [a-z] any, in place of rules for a character each.
class EbnfWriter {
 public:
  explicit EbnfWriter(const std::vector<ExpressionPtr>& rules)
      : rules_(rules) {}

  std::string Write() {
    std::string ebnf;
    for (int64_t i = 0; i < std::ssize(rules_); ++i) {
      absl::StrAppend(&ebnf, RuleName(i), " ::= ");
      // xgrammar has no expression that matches nothing: such a rule needs
      // itself.
      if (IsNever(*rules_[i])) {
        absl::StrAppend(&ebnf, "\"x\" ", RuleName(i));
      } else {
        Append(*rules_[i], ebnf);
      }
      ebnf += '\n';
    }
    return ebnf + repetitions_;
  }

 private:
  using Ways = std::vector<std::string>;
  // Longer ones are made of blocks.
  static constexpr int64_t kBlock = 64;
  // Further repeats are the library's to count.
  static constexpr int64_t kMaxRepeats = 16'384;

  void Append(const Expression& expression, std::string& out) {
    switch (expression.kind) {
      case Kind::kText:
        return AppendQuoted(expression.text, out);
      case Kind::kClass:
        return AppendClass(expression.characters, out);
      case Kind::kRule:
        out += RuleName(expression.rule);
        return;
      case Kind::kSequence:
        return AppendJoined(expression, " ", out);
      case Kind::kChoice:
        return AppendJoined(expression, " | ", out);
      case Kind::kRepeat:
        return AppendRepeat(expression, out);
    }
  }

  void AppendJoined(const Expression& expression, absl::string_view separator,
                    std::string& out) {
    absl::string_view before = "(";
    for (const ExpressionPtr& part : expression.parts) {
      out.append(before.data(), before.size());
      Append(*part, out);
      before = separator;
    }
    out += ')';
  }

  void AppendRepeat(const Expression& expression, std::string& out) {
    const int64_t least = expression.least, most = expression.most;
    const bool is_unbounded = most == Expression::kUnbounded;
    Ways ways;
    if (std::max(least, most) <= kMaxRepeats && (is_unbounded || most > 1) &&
        AddWays(*expression.parts[0], ways)) {
      out += '(';
      if (least > 0) absl::StrAppend(&out, Exactly(ways, least), " ");
      if (is_unbounded) {
        out += AnyNumber(ways);
      } else if (most > least) {
        out += AtMost(ways, most - least);
      }
      out += ')';
      return;
    }
    out += '(';
    Append(*expression.parts[0], out);
    absl::StrAppend(&out, "){", least, ",");
    if (!is_unbounded) absl::StrAppend(&out, most);
    out += '}';
  }

  // The ways to read a part, if each begins with a character of its own.
  bool AddWays(const Expression& part, Ways& ways) {
    // Each is written once for every repeat.
    constexpr size_t kMaxWays = 8, kMaxBytes = 4096;
    switch (part.kind) {
      case Kind::kRule:
        return rules_[part.rule]->kind != Kind::kRule &&
               AddWays(*rules_[part.rule], ways);
      case Kind::kChoice:
        return !part.parts.empty() &&
               std::all_of(part.parts.begin(), part.parts.end(),
                           [&](const ExpressionPtr& way) {
                             return way->kind != Kind::kRule &&
                                    AddWays(*way, ways);
                           });
      case Kind::kRepeat:
        return false;
      case Kind::kText:
      case Kind::kClass:
      case Kind::kSequence: {
        const Expression& first =
            part.kind == Kind::kSequence ? *part.parts[0] : part;
        const bool reads = first.kind == Kind::kClass ||
                           (first.kind == Kind::kText && !first.text.empty());
        if (!reads || ways.size() == kMaxWays) return false;
        Append(part, ways.emplace_back());
        return ways.back().size() <= kMaxBytes;
      }
    }
    return false;
  }

  // Each returns the name of a rule.
  std::string Exactly(const Ways& ways, int64_t count) {
    return Named('e', ways, count, [&] {
      if (count == 1) return EachThen(ways, "");
      if (count <= kBlock) return EachThen(ways, Exactly(ways, count - 1));
      return absl::StrCat(Exactly(ways, kBlock), " ",
                          Exactly(ways, count - kBlock));
    });
  }
  std::string AtMost(const Ways& ways, int64_t count) {
    return Named('m', ways, count, [&] {
      if (count == 0) return std::string("\"\"");
      if (count < kBlock) {
        return absl::StrCat("\"\" | ", EachThen(ways, AtMost(ways, count - 1)));
      }
      return absl::StrCat(AtMost(ways, kBlock - 1), " | ",
                          Exactly(ways, kBlock), " ",
                          AtMost(ways, count - kBlock));
    });
  }
  std::string AnyNumber(const Ways& ways) {
    // Goes on with itself, so its name comes first.
    const auto [found, is_new] = names_.try_emplace(KeyOf('a', ways, 0));
    if (!is_new) return found->second;
    const std::string name = found->second = NewName();
    absl::StrAppend(&repetitions_, name, " ::= \"\" | ", EachThen(ways, name),
                    "\n");
    return name;
  }

  template <typename Body>
  std::string Named(char form, const Ways& ways, int64_t count, Body body) {
    const std::string key = KeyOf(form, ways, count);
    const auto known = names_.find(key);
    if (known != names_.end()) return known->second;
    const std::string text = body(), name = NewName();
    absl::StrAppend(&repetitions_, name, " ::= ", text, "\n");
    return names_[key] = name;
  }
  std::string NewName() { return absl::StrCat("n", num_repetitions_++); }

  static std::string KeyOf(char form, const Ways& ways, int64_t count) {
    return absl::StrCat(std::string(1, form), count, " ",
                        absl::StrJoin(ways, " | "));
  }
  static std::string EachThen(const Ways& ways, const std::string& rest) {
    return absl::StrJoin(ways, " | ",
                         [&](std::string* out, const std::string& way) {
                           absl::StrAppend(out, way, " ", rest);
                         });
  }

  const std::vector<ExpressionPtr>& rules_;
  std::map<std::string, std::string> names_;  // of repetitions' rules
  std::string repetitions_;
  int64_t num_repetitions_ = 0;
};

}  // namespace

std::string RuleSet::ToEbnf() const { return EbnfWriter(rules).Write(); }

}  // namespace espalier::grammar
