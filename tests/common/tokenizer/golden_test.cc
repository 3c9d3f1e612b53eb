// Agreement with the `tokenizers` package, answer by answer. The answers are
// made by make_goldens.py.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/tokenizer/pre_tokenizer.h"
#include "common/tokenizer/tokenizer.h"
#include "tests/common/tokenizer/golden_files.h"

namespace espalier {
namespace {

// "ids plain-ids decoded", as make_goldens.py's answers().
std::string Answer(const Tokenizer& tokenizer, const std::string& text) {
  const std::vector<TokenId> ids = tokenizer.Encode(text);
  std::vector<TokenId> every_second;
  for (size_t i = 0; i < ids.size(); i += 2) every_second.push_back(ids[i]);
  const std::string decoded =
      absl::StrCat(tokenizer.Decode(every_second, /*skip_special=*/false), "|",
                   tokenizer.Decode(every_second, /*skip_special=*/true));
  return absl::StrCat(DigestOf(ids), " ",
                      DigestOf(tokenizer.Encode(text, SpecialText::kPlain)),
                      " ", DigestOf(std::string_view(decoded)));
}

void ExpectGoldenAnswers(const Tokenizer& tokenizer, const std::string& name) {
  const std::vector<std::string> texts = GoldenTexts();
  const std::vector<std::string> answers =
      ReadLines(Testdata(name + ".answers"));
  ASSERT_GE(answers.size(), 1000u);
  ASSERT_LE(answers.size(), texts.size());
  for (size_t i = 0; i < answers.size(); ++i) {
    EXPECT_EQ(Answer(tokenizer, texts[i]), answers[i])
        << "text " << i << ": \"" << absl::CHexEscape(texts[i])
        << "\"\nour ids: " << absl::StrJoin(tokenizer.Encode(texts[i]), " ");
  }
}

class SmallTokenizerGoldenTest : public testing::TestWithParam<const char*> {};

TEST_P(SmallTokenizerGoldenTest, AgreesWithTokenizersOnEveryText) {
  ExpectGoldenAnswers(*LoadOrDie(Testdata(GetParam())), GetParam());
}

INSTANTIATE_TEST_SUITE_P(All, SmallTokenizerGoldenTest,
                         testing::Values("small", "gpt2_style", "characters"),
                         [](const auto& test) { return test.param; });

TEST(DefaultModelGoldenTest, AgreesWithTokenizersOnEveryText) {
  const auto folder = DefaultModelFolder();
  if (folder.empty()) GTEST_SKIP() << "the default model is not here";
  ExpectGoldenAnswers(*LoadOrDie(folder), "default_model");
}

void AppendUtf8(char32_t c, std::string& text) {
  const auto add = [&](char32_t byte) {
    text.push_back(static_cast<char>(byte));
  };
  if (c < 0x80) {
    add(c);
  } else if (c < 0x800) {
    add(0xC0 | (c >> 6));
    add(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    add(0xE0 | (c >> 12));
    add(0x80 | ((c >> 6) & 0x3F));
    add(0x80 | (c & 0x3F));
  } else {
    add(0xF0 | (c >> 18));
    add(0x80 | ((c >> 12) & 0x3F));
    add(0x80 | ((c >> 6) & 0x3F));
    add(0x80 | (c & 0x3F));
  }
}

// "acc c1c!c" for 1024 code points, as make_goldens.py's write_words().
std::string Neighbourhoods(char32_t begin) {
  std::string text;
  for (char32_t c = begin; c < begin + 1024; ++c) {
    for (std::string_view before : {"a", "", " ", "1", "!"}) {
      text += before;
      AppendUtf8(c, text);
    }
  }
  return text;
}

std::string WordSizes(const PreTokenizer& pre_tokenizer,
                      std::string_view text) {
  Digest digest;
  pre_tokenizer.ForEachWord(text, [&](std::string_view word) {
    digest.Add(static_cast<uint32_t>(word.size()));
  });
  return digest.Hex();
}

TEST(PreTokenizerGoldenTest, CutsEveryCodePointAsTokenizersDoes) {
  const std::vector<std::string> answers =
      ReadLines(Testdata("code_points.answers"));
  ASSERT_EQ(answers.size(), (0x110000 - 0x800) / 1024u);
  for (const std::string& answer : answers) {
    const std::string begin_hex = answer.substr(0, answer.find(' '));
    int begin = 0;
    ASSERT_TRUE(absl::SimpleHexAtoi(begin_hex, &begin));
    const std::string text = Neighbourhoods(static_cast<char32_t>(begin));
    EXPECT_EQ(
        absl::StrCat(begin_hex, " ", WordSizes({.split_digits = true}, text),
                     " ", WordSizes({.split_digits = false}, text)),
        answer);
  }
}

}  // namespace
}  // namespace espalier
