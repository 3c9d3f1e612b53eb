#include "common/grammar/regex.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace espalier::grammar {
namespace {

using ::testing::HasSubstr;

Regex Parsed(absl::string_view text,
             RegexClasses classes = RegexClasses::kJavaScript) {
  const auto regex = ParseRegex(text, classes);
  EXPECT_TRUE(regex.ok()) << text << ": " << regex.status();
  return regex.value_or(Regex{.whole = Never(), .with_anchors = Never()});
}

bool IsWhole(absl::string_view regex, absl::string_view text) {
  return Matches(Parsed(regex).whole, text);
}

TEST(Regex, MatchesWhatJavaScriptDoes) {
  for (const auto& [regex, text] :
       std::vector<std::pair<std::string, std::string>>{
           {"\\x41b", "Ab"},
           {"\\u0041\\u{e9}\\ud83d\\ude00", "A\xC3\xA9\xF0\x9F\x98\x80"},
           {"\\cA\\t\\/\\.", "\x01\t/."},
           {"^a|b$", "a"},
           {"^(?:a|(?<n>b))+?$", "abba"},
           {"a{2}b{1,}c{0,3}?", "aabcc"},
           {"a{x}{", "a{x}{"},
           {"[^a-c\\d\\]-]", "\xC3\xA9"},
           {"[\\w-]+[-a][a-]", "x-9_-a"},
           {".", "\xE2\x82\xAC"},
           {"a||b", ""}}) {
    EXPECT_TRUE(IsWhole(regex, text)) << regex;
  }
  for (const auto& [regex, text] :
       std::vector<std::pair<std::string, std::string>>{{"\\x41b", "\xD0\x9B"},
                                                        {".", "\n"},
                                                        {"a{2,3}", "aaaa"},
                                                        {"\\d", "\xD9\xA1"},
                                                        {"[^a]", "a"}}) {
    EXPECT_FALSE(IsWhole(regex, text)) << regex;
  }
}

TEST(Regex, FindsPartsAsAValidatorDoes) {
  EXPECT_TRUE(Finds(Parsed("b"), "abc"));
  EXPECT_FALSE(Finds(Parsed("^b"), "abc"));
  EXPECT_TRUE(Finds(Parsed("c$"), "abc"));
  EXPECT_FALSE(Finds(Parsed("^ab$"), "abc"));
  EXPECT_TRUE(Finds(Parsed("x*"), ""));
}

TEST(Regex, WhatIsNotSupportedIsRefusedByName) {
  for (const auto& [regex, why] :
       std::vector<std::pair<std::string, std::string>>{
           {"(?=a)b", "(?:"},    {"(?<=a)b", "(?:"},
           {"(a)\\1", "\\1"},    {"\\bword", "\\b"},
           {"\\p{L}", "\\p"},    {"a^b", "ends"},
           {"(a$)*", "ends"},    {"(a", "( has no )"},
           {"a)", ") has no ("}, {"*a", "nothing to repeat"},
           {"a**", "repeated"},  {"a{2,1}", "order"},
           {"a{,3}", "least"},   {"[b-a]", "order"},
           {"[a", "no end"},     {"[]", "[]"},
           {"\\u12", "\\u"},     {"\\ud800", "no character"},
           {"\\x4", "\\x"},      {"a{1000000}", "repeats"},
           {"a\\", "backslash"}, {"\xFF", "UTF-8"}}) {
    const auto status = ParseRegex(regex, RegexClasses::kJavaScript).status();
    EXPECT_THAT(std::string(status.message()), HasSubstr(why)) << regex;
  }
  EXPECT_FALSE(
      ParseRegex(std::string(1000, '('), RegexClasses::kJavaScript).ok());
}

TEST(Regex, SizeGrowsWithNestedRepeats) {
  const auto size = [](absl::string_view regex) {
    return AutomatonOf(*Parsed(regex).whole);
  };
  EXPECT_EQ(size("abc"), 3);
  EXPECT_EQ(size("[a-z]{10}"), 10);
  EXPECT_LT(size("([a-z0-9]{1,63}\\.){1,8}[a-z]{2,63}"), kMaxAutomaton);
  EXPECT_EQ(size("([a-z]{0,30}[0-9]{0,30}){0,30}"), kMaxAutomaton);
  EXPECT_EQ(size("((((a*)*)*)*)*b{99}"), kMaxAutomaton);
}

}  // namespace
}  // namespace espalier::grammar
