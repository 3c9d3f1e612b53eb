#include "common/base/printable.h"

#include <string>

#include "gtest/gtest.h"

namespace espalier {
namespace {

constexpr size_t kPlenty = 1000;

TEST(PrintableTest, TextForPeopleStaysAsItIs) {
  for (const std::string text :
       {"", "plain text, 100 %", "\"quoted\" \\ back", "größer 模型 🌳"}) {
    EXPECT_TRUE(IsPrintable(text)) << text;
    EXPECT_EQ(Printable(text, kPlenty), text);
  }
}

TEST(PrintableTest, WhatMovesATerminalIsEscaped) {
  EXPECT_EQ(Printable("a\nb\x1b[2J\x7f", kPlenty), "a\\x0ab\\x1b[2J\\x7f");
  EXPECT_EQ(Printable(std::string("a\0b", 3), kPlenty), "a\\x00b");
  EXPECT_EQ(Printable("\xc2\x9b"
                      "31m",
                      kPlenty),
            "\\xc2\\x9b31m");
  EXPECT_FALSE(IsPrintable("a\n"));
  EXPECT_FALSE(IsPrintable("\xc2\x9b"));
  EXPECT_FALSE(IsPrintable(std::string(1, '\0')));
}

TEST(PrintableTest, BytesThatAreNoUtf8AreEscapedAndFound) {
  EXPECT_EQ(Printable("a\xff"
                      "b",
                      kPlenty),
            "a\\xffb");
  EXPECT_EQ(FindInvalidUtf8("ab\xff"), 2);
  EXPECT_EQ(FindInvalidUtf8("\xc3"), 0);              // cut off
  EXPECT_EQ(FindInvalidUtf8("x\xc0\x80"), 1);         // overlong
  EXPECT_EQ(FindInvalidUtf8("x\xed\xa0\x80"), 1);     // a surrogate
  EXPECT_EQ(FindInvalidUtf8("\xf4\x90\x80\x80"), 0);  // above U+10FFFF
  EXPECT_EQ(FindInvalidUtf8("\xf4\x8f\xbf\xbf"), std::string::npos);
}

TEST(PrintableTest, LongTextIsCutBetweenCharacters) {
  EXPECT_EQ(Printable("abcdef", 3), "abc... (6 bytes)");
  EXPECT_EQ(Printable("aöö", 2), "a... (5 bytes)");
  EXPECT_LT(Printable(std::string(1 << 20, '\n'), 100).size(), 500);
}

}  // namespace
}  // namespace espalier
