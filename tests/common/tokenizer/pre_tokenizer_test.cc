#include "common/tokenizer/pre_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/base/utf8.h"
#include "tests/common/tokenizer/golden_files.h"

namespace espalier {
namespace {

using testing::ElementsAre;

std::vector<std::string> Words(const PreTokenizer& pre_tokenizer,
                               std::string_view text) {
  std::vector<std::string> words;
  pre_tokenizer.ForEachWord(
      text, /*at_start=*/true,
      [&](std::string_view word) { words.emplace_back(word); });
  return words;
}

TEST(PreTokenizerTest, GivesTheLastSpaceToTheNextWord) {
  EXPECT_THAT(Words(SplitBy(kGpt2Pattern), "a  b   "),
              ElementsAre("a", " ", " b", "   "));
  EXPECT_THAT(Words(SplitBy(kGpt2Pattern), "\t\tx\n"),
              ElementsAre("\t", "\t", "x", "\n"));
}

TEST(PreTokenizerTest, CutsOffContractionsInLowerCaseOnly) {
  EXPECT_THAT(Words(SplitBy(kGpt2Pattern), "we'll I'M 's"),
              ElementsAre("we", "'ll", " I", "'", "M", " '", "s"));
}

TEST(PreTokenizerTest, KeepsLettersNumbersAndTheRestApart) {
  EXPECT_THAT(Words(SplitBy(kGpt2Pattern), "x²=49!?é"),
              ElementsAre("x", "²", "=", "49", "!?", "é"));
}

TEST(PreTokenizerTest, MakesAWordOfEachDigitThatNothingLooksPast) {
  EXPECT_THAT(Words(SplitBy(kGpt2Pattern, /*split_digits=*/true), "a  12½ b"),
              ElementsAre("a", "  ", "1", "2", "½", " b"));
}

TEST(PreTokenizerTest, LeavesTextWholeWithoutWords) {
  EXPECT_THAT(Words({}, "a b 1"), ElementsAre("a b 1"));
  EXPECT_THAT(Words({.split_digits = 0}, "a b 1"), ElementsAre("a b ", "1"));
}

TEST(PreTokenizerTest, Qwen2sPatternJoinsSignsAndLineBreaksToWords) {
  const PreTokenizer qwen2 = SplitBy(kQwen2Pattern);
  EXPECT_THAT(Words(qwen2, "I'M a (b) x12"),
              ElementsAre("I", "'M", " a", " (", "b", ")", " x", "1", "2"));
  EXPECT_THAT(Words(qwen2, "f();\n\n  g  \n\tz  "),
              ElementsAre("f", "();\n\n", " ", " g", "  \n", "\tz", "  "));
}

// The parts are those into which the `tokenizers` package splits these texts.
TEST(PreTokenizerTest, Llama3sPatternTakesThreeDigitsTogether) {
  const PreTokenizer llama3 = SplitBy(kLlama3Pattern);
  EXPECT_THAT(Words(llama3, "I'M a (b) x12345 6½78"),
              ElementsAre("I", "'M", " a", " (", "b", ")", " x", "123", "45",
                          " ", "6½7", "8"));
  EXPECT_THAT(
      Words(llama3, "1234567 a1b22c٣٤٥٦"),
      ElementsAre("123", "456", "7", " a", "1", "b", "22", "c", "٣٤٥", "٦"));
}

TEST(PreTokenizerTest, GivesEveryByteOnceInOrder) {
  for (const char* pattern : {"a", kGpt2Pattern.data(), kQwen2Pattern.data()}) {
    const PreTokenizer pre_tokenizer = SplitBy(pattern, /*split_digits=*/true);
    for (const std::string& text : GoldenTexts()) {
      const std::string valid = RepairUtf8(text);
      std::string together;
      for (const std::string& word : Words(pre_tokenizer, valid)) {
        EXPECT_FALSE(word.empty());
        together += word;
      }
      EXPECT_EQ(together, valid);
    }
  }
}

}  // namespace
}  // namespace espalier
