#include "common/tokenizer/split_pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace espalier {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> Pieces(std::string_view pattern,
                                std::string_view text) {
  std::vector<std::string> pieces;
  const auto split = SplitPattern::Parse(pattern);
  EXPECT_TRUE(split.ok()) << split.status();
  split->ForEachPiece(
      text, [&](std::string_view piece) { pieces.emplace_back(piece); });
  return pieces;
}

TEST(SplitPatternTest, GivesMatchesAndWhatIsBetween) {
  EXPECT_THAT(Pieces("b+", "abbcb"), ElementsAre("a", "bb", "c", "b"));
  EXPECT_THAT(Pieces("x", "abc"), ElementsAre("abc"));
}

TEST(SplitPatternTest, TakesTheFirstAlternativeThatMatches) {
  EXPECT_THAT(Pieces("ab|abc|c", "abc"), ElementsAre("ab", "c"));
  EXPECT_THAT(Pieces("(?:a|b)?c|b", "acbcbb"),
              ElementsAre("ac", "bc", "b", "b"));
}

TEST(SplitPatternTest, RepeatsGiveBackWhatTheRestNeeds) {
  EXPECT_THAT(Pieces("a*ab", "aaab"), ElementsAre("aaab"));
  EXPECT_THAT(Pieces("a{2,3}", "aaaaaaaa"), ElementsAre("aaa", "aaa", "aa"));
  EXPECT_THAT(Pieces(R"([é\p{Lo}]+é)", "é字éx"), ElementsAre("é字é", "x"));
}

TEST(SplitPatternTest, LookaheadTakesNothing) {
  EXPECT_THAT(Pieces(R"(\s+(?!\S)|\s+)", "a   b  "),
              ElementsAre("a", "  ", " ", "b", "  "));
}

TEST(SplitPatternTest, SetsAndProperties) {
  EXPECT_THAT(Pieces(R"([^\s\p{L}]+)", "ab1! c"),
              ElementsAre("ab", "1!", " c"));
  EXPECT_THAT(Pieces(R"(\P{L})", "aé1"), ElementsAre("aé", "1"));
  EXPECT_THAT(Pieces(R"([a-c\-\]]+)", "xab-]d"), ElementsAre("x", "ab-]", "d"));
  EXPECT_THAT(Pieces("[一-龥]+", "a字字b"), ElementsAre("a", "字字", "b"));
  EXPECT_THAT(Pieces("(?i:'s|k)", "'Sx'\u017Fx\u212A"),
              ElementsAre("'S", "x", "'\u017F", "x", "\u212A"));
}

TEST(SplitPatternTest, RefusesWhatItDoesNotKnowAndSaysWhere) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"a(b)", "\"(b)\" at byte 1"},
      {"(?:ab)+", "\"+\" at byte 6"},
      {"a+?", "\"?\" at byte 2"},
      {"a++", "\"+\" at byte 2"},
      {"a{2,1}", "at byte 5"},
      {"a{99999}", "at byte"},
      {"a.b", "\".b\" at byte 1"},
      {"^a", "\"^a\" at byte 0"},
      {"(?<=a)b", "at byte 0"},
      {"(?=a)b", "at byte 0"},
      {R"(\p{Han})", "at byte 0"},
      {R"(\d)", "at byte 0"},
      {"[a&&b]", "\"&&b]\" at byte 2"},
      {"[[:alpha:]]", "at byte 1"},
      {"[a", "at byte 2"},
      {"[z-a]", "at byte"},
      {"(?i:[a])", "at byte"},
      {"(?:a", "at byte 4"},
      {"a)", "\")\" at byte 1"},
      {"a*", "matches no characters"},
      {"a|", "matches no characters"},
      {"\xFF", "not UTF-8"},
  };
  for (const auto& [pattern, message] : cases) {
    const absl::Status status = SplitPattern::Parse(pattern).status();
    EXPECT_TRUE(absl::IsUnimplemented(status)) << pattern;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message)) << pattern;
  }
}

TEST(SplitPatternTest, DeepNestingIsRefused) {
  std::string pattern;
  for (int i = 0; i < 100000; ++i) pattern += "(?:";
  EXPECT_TRUE(absl::IsUnimplemented(SplitPattern::Parse(pattern).status()));
}

}  // namespace
}  // namespace espalier
