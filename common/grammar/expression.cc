#include "common/grammar/expression.h"

#include <algorithm>
#include <utility>

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

}  // namespace espalier::grammar
