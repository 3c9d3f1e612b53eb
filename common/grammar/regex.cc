#include "common/grammar/regex.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/grammar/regex_characters.h"
#include "common/grammar/work_budget.h"

namespace espalier::grammar {
namespace {

using Kind = Expression::Kind;

// Rules that stand for ^ and $ until WithoutAnchors takes them out.
constexpr int64_t kStart = -1;
constexpr int64_t kEnd = -2;

constexpr int kMaxGroupDepth = 64;
constexpr int64_t kMaxRepeats = 100'000;

absl::Status Wrong(absl::string_view what) {
  return absl::InvalidArgumentError(what);
}

class Parser {
 public:
  Parser(std::vector<uint32_t> text, RegexClasses classes)
      : text_(std::move(text)), classes_(classes) {}

  absl::StatusOr<ExpressionPtr> Parse() {
    ASSIGN_OR_RETURN(ExpressionPtr all, Alternatives(0));
    if (!AtEnd()) return Wrong("a ) has no (");
    return all;
  }

 private:
  bool AtEnd() const { return at_ == text_.size(); }
  bool Sees(absl::string_view what) const {
    return at_ + what.size() <= text_.size() &&
           std::equal(
               what.begin(), what.end(), text_.begin() + at_,
               [](char a, uint32_t b) { return static_cast<uint8_t>(a) == b; });
  }
  bool Take(absl::string_view what) {
    if (!Sees(what)) return false;
    at_ += what.size();
    return true;
  }

  absl::StatusOr<ExpressionPtr> Alternatives(int depth) {
    if (depth > kMaxGroupDepth) {
      return Wrong(absl::StrCat("groups nest deeper than ", kMaxGroupDepth));
    }
    std::vector<ExpressionPtr> all;
    do {
      ASSIGN_OR_RETURN(all.emplace_back(), Terms(depth));
    } while (Take("|"));
    return Choice(std::move(all));
  }

  absl::StatusOr<ExpressionPtr> Terms(int depth) {
    std::vector<ExpressionPtr> terms;
    std::string literal;
    const auto flush = [&] {
      if (!literal.empty()) terms.push_back(Text(std::exchange(literal, "")));
    };
    while (!AtEnd() && !Sees("|") && !Sees(")")) {
      ASSIGN_OR_RETURN(ExpressionPtr atom, Atom(depth));
      ASSIGN_OR_RETURN(ExpressionPtr term, Repeated(atom));
      if (term->kind == Kind::kText) {
        literal += term->text;
      } else {
        flush();
        terms.push_back(std::move(term));
      }
    }
    flush();
    return Sequence(std::move(terms));
  }

  absl::StatusOr<ExpressionPtr> Atom(int depth) {
    if (Take("(")) return Group(depth);
    if (Take("^")) return Rule(kStart);
    if (Take("$")) return Rule(kEnd);
    if (Take(".")) return OneOf(AnyButLineEnds());
    if (Sees("*") || Sees("+") || Sees("?")) return Wrong("nothing to repeat");
    if (Sees("[")) {
      ASSIGN_OR_RETURN(CodePoints set, ParseClass(text_, at_, classes_));
      return OneOf(std::move(set));
    }
    if (Sees("{") && Bounds(at_ + 1)) return Wrong("nothing to repeat");
    if (Sees("\\")) {
      ASSIGN_OR_RETURN(CodePoints set,
                       ParseEscape(text_, at_, classes_, false));
      const auto& ranges = set.ranges();
      if (ranges.size() != 1 || ranges[0].first != ranges[0].last) {
        return OneOf(std::move(set));
      }
      return Text(Utf8Of(ranges[0].first));
    }
    return Text(Utf8Of(text_[at_++]));
  }

  absl::StatusOr<ExpressionPtr> Group(int depth) {
    if (Take("?")) {
      const bool has_name =
          !Sees("<=") && !Sees("<!") && (Take("<") || Take("P<"));
      if (has_name) {
        while (!AtEnd() && !Sees(">")) ++at_;
        if (!Take(">")) return Wrong("a group's name has no end");
      } else if (!Take(":")) {
        return Wrong("of groups with ?, (?: and (?<name> are supported");
      }
    }
    ASSIGN_OR_RETURN(ExpressionPtr inner, Alternatives(depth + 1));
    if (!Take(")")) return Wrong("a ( has no )");
    return inner;
  }

  struct Repeats {
    int64_t least, most;
    size_t end;  // behind the closing brace
  };

  // Returns the repeats of the braces whose inside begins at text_[at];
  // nullopt: none do.
  std::optional<Repeats> Bounds(size_t at) const {
    const auto number = [&]() -> std::optional<int64_t> {
      const size_t begin = at;
      int64_t value = 0;
      for (; at < text_.size() && text_[at] >= '0' && text_[at] <= '9'; ++at) {
        value = std::min<int64_t>(10 * value + text_[at] - '0', 1 << 30);
      }
      return at > begin ? std::optional<int64_t>(value) : std::nullopt;
    };
    const auto least = number();
    if (!least || at >= text_.size()) return std::nullopt;
    Repeats repeats = {*least, *least, 0};
    if (text_[at] == ',') {
      ++at;
      repeats.most = number().value_or(Expression::kUnbounded);
    }
    if (at >= text_.size() || text_[at] != '}') return std::nullopt;
    repeats.end = at + 1;
    return repeats;
  }

  absl::StatusOr<ExpressionPtr> Repeated(ExpressionPtr atom) {
    Repeats repeats;
    if (Take("*")) {
      repeats = {0, Expression::kUnbounded, 0};
    } else if (Take("+")) {
      repeats = {1, Expression::kUnbounded, 0};
    } else if (Take("?")) {
      repeats = {0, 1, 0};
    } else if (Sees("{,")) {
      return Wrong("{, has no least number");
    } else if (const auto bounds = Sees("{") ? Bounds(at_ + 1) : std::nullopt) {
      repeats = *bounds;
      at_ = bounds->end;
    } else {
      return atom;
    }
    if (atom->kind == Kind::kRule) return Wrong("an anchor is repeated");
    Take("?");  // the lazy ones match the same texts
    if (Sees("*") || Sees("+") || Sees("?") || (Sees("{") && Bounds(at_ + 1))) {
      return Wrong("a repetition is repeated");
    }
    if (std::max(repeats.least, repeats.most) > kMaxRepeats) {
      return Wrong(
          absl::StrCat("a repetition has more than ", kMaxRepeats, " repeats"));
    }
    if (repeats.most != Expression::kUnbounded &&
        repeats.most < repeats.least) {
      return Wrong("a repetition's bounds have no order");
    }
    return Repeat(std::move(atom), repeats.least, repeats.most);
  }

  const std::vector<uint32_t> text_;
  const RegexClasses classes_;
  size_t at_ = 0;
};

bool IsAnchorOrEmpty(const Expression& part) {
  return part.kind == Kind::kRule ||
         (part.kind == Kind::kText && part.text.empty());
}

// Returns the expression without its anchors. They are refused unless they are
// at its ends. `first`, `last`: nothing comes before the expression, or after
// it.
absl::StatusOr<ExpressionPtr> WithoutAnchors(const ExpressionPtr& expression,
                                             bool first, bool last) {
  switch (expression->kind) {
    case Kind::kText:
    case Kind::kClass:
      return expression;
    case Kind::kRule:
      if (!(expression->rule == kStart ? first : last)) {
        return Wrong("^ and $ are supported at the ends only");
      }
      return Text("");
    case Kind::kRepeat: {
      const bool once = expression->most == 1;
      ASSIGN_OR_RETURN(
          ExpressionPtr part,
          WithoutAnchors(expression->parts[0], first && once, last && once));
      return Repeat(std::move(part), expression->least, expression->most);
    }
    case Kind::kSequence:
    case Kind::kChoice:
      break;
  }
  const bool is_sequence = expression->kind == Kind::kSequence;
  std::vector<ExpressionPtr> parts = expression->parts;
  for (size_t i = 0; i < parts.size(); ++i) {
    bool is_first = first, is_last = last;
    for (size_t k = 0; is_sequence && k < parts.size(); ++k) {
      if (IsAnchorOrEmpty(*expression->parts[k])) continue;
      is_first = is_first && k >= i;
      is_last = is_last && k <= i;
    }
    ASSIGN_OR_RETURN(parts[i], WithoutAnchors(parts[i], is_first, is_last));
  }
  return is_sequence ? Sequence(std::move(parts)) : Choice(std::move(parts));
}

// Returns the places of `text` where a match that begins at one of `from` may
// end.
std::vector<bool> EndsOf(const Expression& expression,
                         const std::vector<uint32_t>& text,
                         std::vector<bool> from) {
  const size_t size = text.size();
  SpendWork(1 + static_cast<int64_t>(size));
  const auto step = [&](const CodePoints& set) {
    std::vector<bool> to(size + 1);
    for (size_t i = 0; i < size; ++i) {
      if (from[i] && set.Contains(text[i])) to[i + 1] = true;
    }
    return to;
  };
  switch (expression.kind) {
    case Kind::kText: {
      const auto characters = CharactersOf(expression.text);
      for (const uint32_t c : *characters) from = step({{c, c}});
      return from;
    }
    case Kind::kClass:
      return step(expression.characters);
    case Kind::kRule:
      for (size_t i = 0; i <= size; ++i) {
        if (i != (expression.rule == kStart ? 0 : size)) from[i] = false;
      }
      return from;
    case Kind::kSequence:
      for (const ExpressionPtr& part : expression.parts) {
        from = EndsOf(*part, text, std::move(from));
      }
      return from;
    case Kind::kChoice:
    case Kind::kRepeat:
      break;
  }
  std::vector<bool> all(size + 1);
  const auto add = [&](const std::vector<bool>& more) {
    const std::vector<bool> before = all;
    for (size_t i = 0; i <= size; ++i) all[i] = all[i] || more[i];
    return all != before;
  };
  if (expression.kind == Kind::kChoice) {
    for (const ExpressionPtr& part : expression.parts) {
      add(EndsOf(*part, text, from));
    }
    return all;
  }
  // More repeats than characters find nothing new.
  const int64_t enough = std::ssize(text) + 1;
  for (int64_t i = 0; i < std::min(expression.least, enough); ++i) {
    from = EndsOf(*expression.parts[0], text, std::move(from));
  }
  add(from);
  const int64_t more = expression.most == Expression::kUnbounded
                           ? enough
                           : expression.most - expression.least;
  for (int64_t i = 0; i < std::min(more, enough); ++i) {
    from = EndsOf(*expression.parts[0], text, std::move(from));
    if (!add(from)) break;
  }
  return all;
}

}  // namespace

absl::StatusOr<Regex> ParseRegex(absl::string_view text, RegexClasses classes) {
  auto characters = CharactersOf(text);
  if (!characters) return Wrong("is not valid UTF-8");
  ASSIGN_OR_RETURN(ExpressionPtr parsed,
                   Parser(*std::move(characters), classes).Parse());
  ASSIGN_OR_RETURN(ExpressionPtr whole, WithoutAnchors(parsed, true, true));
  return Regex{.whole = std::move(whole), .with_anchors = std::move(parsed)};
}

bool Finds(const Regex& regex, absl::string_view text) {
  const auto characters = CharactersOf(text);
  if (!characters) return false;
  const std::vector<bool> ends =
      EndsOf(*regex.with_anchors, *characters,
             std::vector<bool>(characters->size() + 1, true));
  return std::find(ends.begin(), ends.end(), true) != ends.end();
}

bool Matches(const ExpressionPtr& whole, absl::string_view text) {
  return Finds({.with_anchors = Sequence({Rule(kStart), whole, Rule(kEnd)})},
               text);
}

}  // namespace espalier::grammar
