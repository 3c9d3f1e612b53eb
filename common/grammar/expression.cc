#include "common/grammar/expression.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace espalier::grammar {
namespace {

using Kind = Expression::Kind;

ExpressionPtr Make(Expression expression) {
  return std::make_shared<const Expression>(std::move(expression));
}

int64_t Product(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  return a > kMaxAutomaton / b ? kMaxAutomaton : a * b;
}

int64_t Sum(int64_t a, int64_t b) { return std::min(kMaxAutomaton, a + b); }

struct Size {
  int64_t places = 0;
  // The largest count of a repetition; nested counts are multiplied.
  int64_t repeats = 1;
};

Size SizeOf(const Expression& expression) {
  constexpr int64_t kManyRepeats = 10;
  switch (expression.kind) {
    case Kind::kText:
      return {static_cast<int64_t>(expression.text.size())};
    case Kind::kClass:
      return {1};
    case Kind::kRule:
      return {1};
    case Kind::kRepeat: {
      const Size part = SizeOf(*expression.parts[0]);
      const int64_t repeats = expression.most == Expression::kUnbounded
                                  ? std::max(expression.least, kManyRepeats)
                                  : std::max<int64_t>(expression.most, 1);
      // At most so many copies are made; the library counts further ones.
      constexpr int64_t kMaxCopies = 256;
      const int64_t copies =
          std::min(kMaxCopies, expression.most == Expression::kUnbounded
                                   ? expression.least + 1
                                   : repeats);
      return {Product(part.places, copies), Product(part.repeats, repeats)};
    }
    case Kind::kSequence:
    case Kind::kChoice: {
      Size size;
      for (const ExpressionPtr& part : expression.parts) {
        const Size next = SizeOf(*part);
        size.places = Sum(size.places, next.places);
        size.repeats = std::max(size.repeats, next.repeats);
      }
      return size;
    }
  }
  return {};
}

bool HasRepeat(const Expression& expression) {
  return expression.kind == Kind::kRepeat ||
         std::any_of(
             expression.parts.begin(), expression.parts.end(),
             [](const ExpressionPtr& part) { return HasRepeat(*part); });
}

// Returns the most repeats of a repetition that holds another; 1: none does.
int64_t NestedRepeats(const Expression& expression) {
  int64_t most = 1;
  if (expression.kind == Kind::kRepeat && HasRepeat(*expression.parts[0])) {
    most = SizeOf(expression).repeats;
  }
  for (const ExpressionPtr& part : expression.parts) {
    most = std::max(most, NestedRepeats(*part));
  }
  return most;
}

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

ExpressionPtr Text(absl::string_view text) {
  return Make({.kind = Kind::kText, .text = std::string(text)});
}

ExpressionPtr OneOf(CodePoints characters) {
  if (characters.empty()) return Never();
  return Make({.kind = Kind::kClass, .characters = std::move(characters)});
}

ExpressionPtr Sequence(std::vector<ExpressionPtr> parts) {
  const auto is_never = [](const ExpressionPtr& part) {
    return IsNever(*part);
  };
  if (std::any_of(parts.begin(), parts.end(), is_never)) return Never();
  std::vector<ExpressionPtr> flat;
  for (ExpressionPtr& part : parts) {
    if (part->kind == Kind::kSequence) {
      flat.insert(flat.end(), part->parts.begin(), part->parts.end());
    } else if (part->kind != Kind::kText || !part->text.empty()) {
      flat.push_back(std::move(part));
    }
  }
  if (flat.empty()) return Text("");
  if (flat.size() == 1) return flat[0];
  return Make({.kind = Kind::kSequence, .parts = std::move(flat)});
}

ExpressionPtr Choice(std::vector<ExpressionPtr> parts) {
  std::erase_if(parts,
                [](const ExpressionPtr& part) { return IsNever(*part); });
  if (parts.size() == 1) return parts[0];
  return Make({.kind = Kind::kChoice, .parts = std::move(parts)});
}

ExpressionPtr Repeat(ExpressionPtr part, int64_t least, int64_t most) {
  if (most == 0 || (IsNever(*part) && least == 0)) return Text("");
  if (IsNever(*part)) return Never();
  if (least == 1 && most == 1) return part;
  return Make({.kind = Kind::kRepeat,
               .parts = {std::move(part)},
               .least = least,
               .most = most});
}

ExpressionPtr Optional(ExpressionPtr part) {
  return Repeat(std::move(part), 0, 1);
}

ExpressionPtr Rule(int64_t number) {
  return Make({.kind = Kind::kRule, .rule = number});
}

ExpressionPtr Never() { return Make({.kind = Kind::kChoice}); }

bool IsNever(const Expression& expression) {
  return expression.kind == Kind::kChoice && expression.parts.empty();
}

ExpressionPtr Mapped(
    const ExpressionPtr& expression,
    const std::function<ExpressionPtr(const Expression&)>& change) {
  const auto parts = [&] {
    std::vector<ExpressionPtr> mapped;
    for (const ExpressionPtr& part : expression->parts) {
      mapped.push_back(Mapped(part, change));
    }
    return mapped;
  };
  switch (expression->kind) {
    case Kind::kText:
    case Kind::kClass:
      return change(*expression);
    case Kind::kRule:
      return expression;
    case Kind::kSequence:
      return Sequence(parts());
    case Kind::kChoice:
      return Choice(parts());
    case Kind::kRepeat:
      return Repeat(Mapped(expression->parts[0], change), expression->least,
                    expression->most);
  }
  return expression;
}

Lengths LengthsOf(const Expression& expression) {
  constexpr int64_t kAny = Expression::kUnbounded;
  switch (expression.kind) {
    case Kind::kText: {
      const auto characters = CharactersOf(expression.text);
      const int64_t size = characters ? std::ssize(*characters) : 0;
      return {size, size};
    }
    case Kind::kClass:
      return {1, 1};
    case Kind::kRule:
      return {0, kAny};
    case Kind::kRepeat: {
      const Lengths part = LengthsOf(*expression.parts[0]);
      Lengths all = {.least = Product(part.least, expression.least)};
      if (part.most == kAny || (part.most > 0 && expression.most == kAny)) {
        all.most = kAny;
      } else {
        all.most = Product(part.most, expression.most);
        if (all.most >= kMaxAutomaton) all.most = kAny;
      }
      return all;
    }
    case Kind::kSequence: {
      Lengths all;
      for (const ExpressionPtr& part : expression.parts) {
        const Lengths next = LengthsOf(*part);
        all.least += next.least;
        all.most =
            all.most == kAny || next.most == kAny ? kAny : all.most + next.most;
      }
      return all;
    }
    case Kind::kChoice: {
      if (expression.parts.empty()) return {};
      Lengths any = LengthsOf(*expression.parts[0]);
      for (const ExpressionPtr& part : expression.parts) {
        const Lengths next = LengthsOf(*part);
        any.least = std::min(any.least, next.least);
        any.most = any.most == kAny || next.most == kAny
                       ? kAny
                       : std::max(any.most, next.most);
      }
      return any;
    }
  }
  return {};
}

int64_t AutomatonOf(const Expression& expression) {
  return Product(SizeOf(expression).places, NestedRepeats(expression));
}

int64_t RuleSet::Add(ExpressionPtr rule) {
  rules.push_back(std::move(rule));
  return std::ssize(rules) - 1;
}

int64_t RuleSet::automaton() const {
  int64_t size = 0;
  for (const ExpressionPtr& rule : rules) size = Sum(size, AutomatonOf(*rule));
  return size;
}

std::string RuleSet::ToEbnf() const { return EbnfWriter(rules).Write(); }

}  // namespace espalier::grammar
