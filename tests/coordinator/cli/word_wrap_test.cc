#include "coordinator/cli/word_wrap.h"

#include <sstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace espalier::cli {
namespace {

std::string Wrap(const std::vector<std::string>& pieces, int columns,
                 int indent = 0) {
  std::ostringstream out;
  WordWrap wrap(out, columns, indent);
  for (const std::string& piece : pieces) wrap.Write(piece);
  wrap.Finish();
  return out.str();
}

TEST(WordWrap, BreaksBetweenWords) {
  EXPECT_EQ(Wrap({"the quick brown fox"}, 10), "the quick\nbrown fox\n");
  EXPECT_EQ(Wrap({"the quick  brown"}, 15), "the quick\nbrown\n");
  EXPECT_EQ(Wrap({"exactly10!"}, 10), "exactly10!\n");
}

TEST(WordWrap, AWordMayComeInPieces) {
  EXPECT_EQ(Wrap({"the qu", "ick br", "own", " fox"}, 10),
            "the quick\nbrown fox\n");
}

TEST(WordWrap, HoldsOnlyTheLastWordBack) {
  std::ostringstream out;
  WordWrap wrap(out, 20);
  wrap.Write("one two");
  EXPECT_EQ(out.str(), "one");
  wrap.Write(" ");
  EXPECT_EQ(out.str(), "one two");
}

TEST(WordWrap, KeepsTheTextsOwnLinesAndTheirIndentation) {
  EXPECT_EQ(Wrap({"a\n  b c\n\nd\n"}, 10), "a\n  b c\n\nd\n");
}

TEST(WordWrap, CountsCharactersAndNotBytes) {
  EXPECT_EQ(Wrap({"\u00e4\u00e4\u00e4\u00e4 \u00f6\u00f6\u00f6\u00f6"}, 9),
            "\u00e4\u00e4\u00e4\u00e4 \u00f6\u00f6\u00f6\u00f6\n");
}

TEST(WordWrap, TextWithoutSpacesIsNotHeldBack) {
  std::ostringstream out;
  WordWrap wrap(out, 10);
  wrap.Write("abcdefgh");
  EXPECT_EQ(out.str(), "abcdefgh");
}

TEST(WordWrap, IndentsLinesThatItBegins) {
  EXPECT_EQ(Wrap({"one two three"}, 10, 2), "one two\n  three\n");
}

TEST(WordWrap, WithoutATerminalNothingChanges) {
  EXPECT_EQ(Wrap({"a long ", "line  of \nwords "}, 0),
            "a long line  of \nwords \n");
}

}  // namespace
}  // namespace espalier::cli
