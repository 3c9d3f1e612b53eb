#include "common/grammar/number_range.h"

#include <random>
#include <string>

#include "common/grammar/regex.h"
#include "gtest/gtest.h"

namespace espalier::grammar {
namespace {

std::optional<Bound> At(const std::string& text, bool is_exclusive = false) {
  return Bound{*ParseDecimal(text), is_exclusive};
}

bool Has(const NumberRange& range, const std::string& number) {
  RuleSet rules = {{nullptr}};
  const ExpressionPtr numbers = NumbersIn(range, rules);
  return Matches(numbers, number);
}

TEST(Decimal, ReadsEveryForm) {
  EXPECT_EQ(ParseDecimal("-0012.3400")->whole, "12");
  EXPECT_EQ(ParseDecimal("-12.3400")->fraction, "34");
  EXPECT_EQ(ParseDecimal("1.5e3")->whole, "1500");
  EXPECT_EQ(ParseDecimal("25e-4")->fraction, "0025");
  EXPECT_TRUE(ParseDecimal("-0.0e5")->is_zero());
  EXPECT_FALSE(ParseDecimal("1e300"));
  EXPECT_TRUE(Less(*ParseDecimal("-2"), *ParseDecimal("-1.5")));
  EXPECT_TRUE(Less(*ParseDecimal("-1"), *ParseDecimal("0.5")));
  EXPECT_FALSE(Less(*ParseDecimal("10"), *ParseDecimal("9.99")));
}

TEST(NumberRange, IntegersAreExactlyThoseInBounds) {
  std::mt19937 random(3);
  for (int i = 0; i < 60; ++i) {
    const int least = static_cast<int>(random() % 300) - 150;
    const int most = least + static_cast<int>(random() % 160);
    const NumberRange range = {
        .least = At(std::to_string(least), i % 3 == 0),
        .most = At(std::to_string(most) + (i % 2 == 0 ? ".5" : "")),
        .is_integer = true,
        .multiple_of = 1 + static_cast<int>(random() % 4)};
    for (int n = least - 20; n <= most + 20; ++n) {
      const bool is_in = n >= least + (i % 3 == 0) &&
                         n <= most - (i % 2 == 0 && most < 0) &&
                         n % range.multiple_of == 0;
      EXPECT_EQ(Has(range, std::to_string(n)), is_in)
          << n << " in " << least << " to " << most << " by "
          << range.multiple_of;
    }
  }
}

TEST(NumberRange, DecimalsKeepToBounds) {
  std::mt19937 random(4);
  const auto thousandths = [](int n) {
    std::string digits = std::to_string(std::abs(n));
    digits.insert(0, std::max<int>(0, 4 - static_cast<int>(digits.size())),
                  '0');
    digits.insert(digits.size() - 3, ".");
    return (n < 0 ? "-" : "") + digits;
  };
  for (int i = 0; i < 40; ++i) {
    const int least = static_cast<int>(random() % 4000) - 2000;
    const int most = least + static_cast<int>(random() % 2500);
    const bool is_exclusive = i % 2 == 0;
    const NumberRange range = {.least = At(thousandths(least), is_exclusive),
                               .most = At(thousandths(most), is_exclusive)};
    for (int n = least - 40; n <= most + 40; n += 1 + random() % 7) {
      if (n == 0) continue;
      const bool is_in =
          is_exclusive ? n > least && n < most : n >= least && n <= most;
      EXPECT_EQ(Has(range, thousandths(n)), is_in)
          << thousandths(n) << " in " << thousandths(least) << " to "
          << thousandths(most);
    }
  }
}

TEST(NumberRange, EmptyAndHugeOnes) {
  RuleSet rules = {{nullptr}};
  EXPECT_TRUE(IsNever(*NumbersIn({.least = At("3"), .most = At("2")}, rules)));
  EXPECT_TRUE(
      IsNever(*NumbersIn({.least = At("3", true), .most = At("3")}, rules)));
  EXPECT_EQ(NumbersIn({.least = At("1e25"), .is_integer = true}, rules),
            nullptr);
  EXPECT_EQ(NumbersIn({.is_integer = true, .multiple_of = 65}, rules), nullptr);
  EXPECT_TRUE(Has({.most = At("1e25"), .is_integer = true}, "7"));
  EXPECT_TRUE(Has({.least = At("0", true)}, "0.001"));
  EXPECT_FALSE(Has({.least = At("0", true)}, "0.000"));
  EXPECT_TRUE(Has({.least = At("0")}, "0"));
}

}  // namespace
}  // namespace espalier::grammar
