#include "common/grammar/number_range.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace espalier::grammar {
namespace {

// 999999999999999999: the largest integer.
constexpr int64_t kMaxInteger = 999'999'999'999'999'999;
// The most digits of a number that is no integer, so that two of them are never
// one double.
constexpr int64_t kExactDigits = 15;
constexpr size_t kMaxFraction = 12;

ExpressionPtr Digit(int first, int last) {
  if (first > last) return Never();
  if (first == last)
    return Text(std::string(1, static_cast<char>('0' + first)));
  return OneOf({{static_cast<uint32_t>('0' + first),
                 static_cast<uint32_t>('0' + last)}});
}

ExpressionPtr Digits(int64_t least, int64_t most) {
  return Repeat(Digit(0, 9), least, most);
}

// -1, 0 or 1, without signs.
int CompareSize(const Decimal& a, const Decimal& b) {
  if (a.whole.size() != b.whole.size()) {
    return a.whole.size() < b.whole.size() ? -1 : 1;
  }
  if (const int order = a.whole.compare(b.whole); order != 0) return order;
  return a.fraction.compare(b.fraction);
}

// The numbers from a bound to another, neither of them negative.
class PositiveNumbers {
 public:
  PositiveNumbers(Bound least, Bound most)
      : least_(std::move(least)), most_(std::move(most)) {}

  ExpressionPtr All() {
    const int order = CompareSize(least_.value, most_.value);
    if (order > 0 ||
        (order == 0 && (least_.is_exclusive || most_.is_exclusive))) {
      return Never();
    }
    std::vector<ExpressionPtr> lengths;
    for (size_t size = least_.value.whole.size();
         size <= most_.value.whole.size(); ++size) {
      size_ = size;
      fraction_ = std::clamp<int64_t>(kExactDigits - static_cast<int64_t>(size),
                                      0, static_cast<int64_t>(kMaxFraction));
      const bool at_least = size == least_.value.whole.size();
      const bool at_most = size == most_.value.whole.size();
      lengths.push_back(Whole(0, at_least, at_most));
    }
    return Choice(std::move(lengths));
  }

 private:
  // Returns what follows `at` digits before the point. `low`, `high`: they are
  // those of the least, or the most.
  ExpressionPtr Whole(size_t at, bool low, bool high) {
    if (at == size_) return Fraction(low, high);
    const int first = low                    ? least_.value.whole[at] - '0'
                      : at == 0 && size_ > 1 ? 1
                                             : 0;
    const int last = high ? most_.value.whole[at] - '0' : 9;
    return Branches(first, last, low, high,
                    [&](bool l, bool h) { return Whole(at + 1, l, h); });
  }

  ExpressionPtr Fraction(bool low, bool high) {
    std::vector<ExpressionPtr> ends;
    if (MayStop(0, low, high)) ends.push_back(Text(""));
    ends.push_back(Sequence({Text("."), More(0, low, high)}));
    return Choice(std::move(ends));
  }

  // Returns whether zeros may follow `at` digits after the point.
  bool MayStop(size_t at, bool low, bool high) const {
    if (low && (at < least_.value.fraction.size() || least_.is_exclusive)) {
      return false;
    }
    return !high || at < most_.value.fraction.size() || !most_.is_exclusive;
  }

  // Returns one or more digits, after `at` of them.
  ExpressionPtr More(size_t at, bool low, bool high) {
    const auto limit = static_cast<size_t>(fraction_);
    if (at >= limit) return Never();
    const std::string& lowest = least_.value.fraction;
    const std::string& highest = most_.value.fraction;
    if (low && at >= lowest.size() && !least_.is_exclusive) low = false;
    if (high && at >= highest.size()) return Never();
    if (!low && !high) return Digits(1, static_cast<int64_t>(limit - at));
    const int first = low && at < lowest.size() ? lowest[at] - '0' : 0;
    const int last = high ? highest[at] - '0' : 9;
    return Branches(first, last, low, high, [&](bool l, bool h) {
      std::vector<ExpressionPtr> ends;
      if (MayStop(at + 1, l, h)) ends.push_back(Text(""));
      ends.push_back(More(at + 1, l, h));
      return Choice(std::move(ends));
    });
  }

  template <typename Next>
  static ExpressionPtr Branches(int first, int last, bool low, bool high,
                                const Next& next) {
    if (first > last) return Never();
    if (first == last) return Sequence({Digit(first, last), next(low, high)});
    std::vector<ExpressionPtr> branches;
    if (low) {
      branches.push_back(Sequence({Digit(first, first), next(true, false)}));
      ++first;
    }
    if (high) {
      branches.push_back(Sequence({Digit(last, last), next(false, true)}));
      --last;
    }
    branches.push_back(Sequence({Digit(first, last), next(false, false)}));
    return Choice(std::move(branches));
  }

  const Bound least_, most_;
  size_t size_ = 0;       // digits before the point
  int64_t fraction_ = 0;  // at most, after it
};

// The integers from one to another, neither of them negative, that are
// multiples.
class PositiveIntegers {
 public:
  PositiveIntegers(int64_t least, int64_t most, int64_t multiple_of,
                   RuleSet& rules)
      : least_(std::to_string(least)),
        most_(std::to_string(most)),
        multiple_of_(multiple_of),
        rules_(rules) {}

  ExpressionPtr All() {
    std::vector<ExpressionPtr> lengths;
    for (size_t size = least_.size(); size <= most_.size(); ++size) {
      lengths.push_back(
          From(0, size, size == least_.size(), size == most_.size(), 0));
    }
    return Choice(std::move(lengths));
  }

 private:
  ExpressionPtr From(size_t at, size_t size, bool low, bool high,
                     int64_t remainder) {
    if (at == size) return remainder == 0 ? Text("") : Never();
    if (!low && !high && at > 0) return Free(size - at, remainder);
    const int first = low ? least_[at] - '0' : at == 0 && size > 1 ? 1 : 0;
    const int last = high ? most_[at] - '0' : 9;
    std::vector<ExpressionPtr> digits;
    for (int digit = first; digit <= last;) {
      // Digits that go on alike are one class.
      const bool is_low = low && digit == first;
      const bool is_high = high && digit == last;
      int end = digit;
      if (!is_low && !is_high && multiple_of_ == 1) end = last - (high ? 1 : 0);
      digits.push_back(Sequence(
          {Digit(digit, end), From(at + 1, size, is_low, is_high,
                                   (10 * remainder + digit) % multiple_of_)}));
      digit = end + 1;
    }
    return Choice(std::move(digits));
  }

  ExpressionPtr Free(size_t count, int64_t remainder) {
    if (multiple_of_ == 1) {
      return Digits(static_cast<int64_t>(count), static_cast<int64_t>(count));
    }
    if (!free_.contains({count, remainder})) {
      std::vector<ExpressionPtr> digits;
      for (int digit = 0; digit < 10; ++digit) {
        const int64_t next = (10 * remainder + digit) % multiple_of_;
        digits.push_back(
            Sequence({Digit(digit, digit), count > 1   ? Free(count - 1, next)
                                           : next == 0 ? Text("")
                                                       : Never()}));
      }
      ExpressionPtr all = Choice(std::move(digits));
      free_[{count, remainder}] =
          IsNever(*all) ? all : Rule(rules_.Add(std::move(all)));
    }
    return free_[{count, remainder}];
  }

  const std::string least_, most_;
  const int64_t multiple_of_;
  RuleSet& rules_;
  std::map<std::pair<size_t, int64_t>, ExpressionPtr> free_;
};

// Returns the integer next to a bound and within it; clamped to what has few
// digits.
int64_t IntegerAt(const Bound& bound, bool is_least) {
  int64_t size = kMaxInteger;
  if (bound.value.whole.size() <= static_cast<size_t>(kMaxRangeDigits)) {
    size = std::atoll(bound.value.whole.c_str());
  }
  int64_t value = bound.value.is_negative ? -size : size;
  const bool is_fraction = !bound.value.fraction.empty();
  const bool moves_in = bound.is_exclusive && !is_fraction;
  if (is_least) {
    if (moves_in || (is_fraction && !bound.value.is_negative)) ++value;
    return std::min(value, kMaxInteger + 1);
  }
  if (moves_in || (is_fraction && bound.value.is_negative)) --value;
  return std::max(value, -kMaxInteger - 1);
}

ExpressionPtr ListedMultiples(int64_t least, int64_t most,
                              int64_t multiple_of) {
  std::vector<ExpressionPtr> all;
  for (int64_t value = least; value <= most; value += multiple_of) {
    all.push_back(Text(std::to_string(value)));
  }
  return Choice(std::move(all));
}

bool IsTooLarge(const std::optional<Bound>& bound) {
  return bound &&
         bound->value.whole.size() > static_cast<size_t>(kMaxRangeDigits);
}

ExpressionPtr IntegersIn(const NumberRange& range, RuleSet& rules) {
  // A bound on the other side of all that can be written.
  if ((IsTooLarge(range.least) && !range.least->value.is_negative) ||
      (IsTooLarge(range.most) && range.most->value.is_negative)) {
    return nullptr;
  }
  const int64_t least =
      range.least ? IntegerAt(*range.least, true) : -kMaxInteger;
  const int64_t most = range.most ? IntegerAt(*range.most, false) : kMaxInteger;
  const int64_t multiple = range.multiple_of;
  const int64_t rest = ((least % multiple) + multiple) % multiple;
  const int64_t first = rest == 0 ? least : least + (multiple - rest);
  if (first > most || least > most) return Never();
  if (multiple > 1) {
    if ((most - first) / multiple < kMaxListedMultiples) {
      return ListedMultiples(first, most, multiple);
    }
    if (multiple > kMaxMultipleOf) return nullptr;
  }
  std::vector<ExpressionPtr> signs;
  if (most >= 0) {
    signs.push_back(
        PositiveIntegers(std::max<int64_t>(least, 0), most, multiple, rules)
            .All());
  }
  if (least < 0) {
    signs.push_back(
        Sequence({Text("-"), PositiveIntegers(std::max<int64_t>(-most, 1),
                                              -least, multiple, rules)
                                 .All()}));
  }
  return Choice(std::move(signs));
}

Decimal Positive(Decimal value) {
  value.is_negative = false;
  return value;
}

// Rounds a bound for numbers of kMaxFraction digits after the point.
std::optional<Bound> Rounded(std::optional<Bound> bound, bool is_least) {
  if (!bound || bound->value.fraction.size() <= kMaxFraction) return bound;
  std::string& fraction = bound->value.fraction;
  fraction.resize(kMaxFraction);
  fraction.erase(fraction.find_last_not_of('0') + 1);
  // What is cut off is nearer to zero.
  bound->is_exclusive = is_least != bound->value.is_negative;
  return bound;
}

}  // namespace

std::optional<Decimal> ParseDecimal(absl::string_view text) {
  constexpr int64_t kMax = 40;
  Decimal decimal;
  if (!text.empty() && text[0] == '-') {
    decimal.is_negative = true;
    text.remove_prefix(1);
  }
  int64_t exponent = 0;
  if (const size_t e = text.find_first_of("eE"); e != absl::string_view::npos) {
    absl::string_view power = text.substr(e + 1);
    if (!power.empty() && power[0] == '+') power.remove_prefix(1);
    if (!absl::SimpleAtoi(power, &exponent)) return std::nullopt;
    text = text.substr(0, e);
  }
  const size_t point = std::min(text.find('.'), text.size());
  std::string digits = absl::StrCat(
      text.substr(0, point), point < text.size() ? text.substr(point + 1) : "");
  if (digits.find_first_not_of('0') == std::string::npos) return Decimal();
  int64_t places = static_cast<int64_t>(point) + exponent;
  if (places > kMax || places < -kMax) return std::nullopt;
  if (places < 0) {
    digits.insert(0, static_cast<size_t>(-places), '0');
    places = 0;
  }
  if (places > std::ssize(digits)) {
    digits.append(static_cast<size_t>(places - std::ssize(digits)), '0');
  }
  decimal.whole = digits.substr(0, static_cast<size_t>(places));
  decimal.fraction = digits.substr(static_cast<size_t>(places));
  decimal.whole.erase(
      0, std::min(decimal.whole.find_first_not_of('0'), decimal.whole.size()));
  if (decimal.whole.empty()) decimal.whole.assign(1, '0');
  decimal.fraction.erase(decimal.fraction.find_last_not_of('0') + 1);
  if (std::ssize(decimal.fraction) > kMax) return std::nullopt;
  return decimal;
}

bool Less(const Decimal& a, const Decimal& b) {
  if (a.is_negative != b.is_negative) return a.is_negative;
  const int order = CompareSize(a, b);
  return a.is_negative ? order > 0 : order < 0;
}

ExpressionPtr NumbersIn(const NumberRange& exact, RuleSet& rules) {
  if (exact.is_integer) return IntegersIn(exact, rules);
  const NumberRange range = {.least = Rounded(exact.least, true),
                             .most = Rounded(exact.most, false)};
  if ((IsTooLarge(range.least) && !range.least->value.is_negative) ||
      (IsTooLarge(range.most) && range.most->value.is_negative)) {
    return nullptr;
  }
  const Bound farthest = {
      .value = {.whole = std::string(kMaxRangeDigits, '9')}};
  const bool has_negatives = !range.least || range.least->value.is_negative;
  const bool has_positives = !range.most || !range.most->value.is_negative;
  std::vector<ExpressionPtr> signs;
  if (has_positives) {
    Bound most =
        IsTooLarge(range.most) ? farthest : range.most.value_or(farthest);
    Bound least = has_negatives ? Bound() : *range.least;
    signs.push_back(PositiveNumbers(std::move(least), std::move(most)).All());
  }
  if (has_negatives) {
    Bound most =
        IsTooLarge(range.least) ? farthest : range.least.value_or(farthest);
    most.value = Positive(most.value);
    Bound least = {.is_exclusive = true};
    if (!has_positives) {
      least = *range.most;
      least.value = Positive(least.value);
    }
    signs.push_back(Sequence(
        {Text("-"), PositiveNumbers(std::move(least), std::move(most)).All()}));
  }
  return Choice(std::move(signs));
}

ExpressionPtr AnyInteger() {
  return Sequence(
      {Optional(Text("-")),
       Choice(
           {Text("0"), Sequence({Digit(1, 9), Digits(0, kMaxRangeDigits)})})});
}

ExpressionPtr AnyNumber() {
  const ExpressionPtr exponent =
      Sequence({OneOf({{'E', 'E'}, {'e', 'e'}}),
                Optional(OneOf({{'+', '+'}, {'-', '-'}})), Digits(1, 2)});
  return Sequence({AnyInteger(),
                   Optional(Sequence({Text("."), Digits(1, kMaxRangeDigits)})),
                   Optional(exponent)});
}

}  // namespace espalier::grammar
