// Compares encoding and decoding with the `tokenizers` package, whose answers
// make_goldens.py has stored.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/utf8.h"
#include "common/tokenizer/normal_forms.h"
#include "common/tokenizer/pre_tokenizer.h"
#include "common/tokenizer/tokenizer.h"
#include "common/tokenizer/tokenizer_file.h"
#include "common/tokenizer/tokenizer_settings.h"
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
                         testing::Values("small", "gpt2_style", "qwen2_style",
                                         "llama3_style", "gpt4o_style",
                                         "deepseek_style", "deepseek_llm_style",
                                         "deepseek_coder_style", "tekken_style",
                                         "normalized_style", "characters"),
                         [](const auto& test) { return test.param; });

// Answers like make_goldens.py's character_answers().
std::string CharacterAnswer(const Tokenizer& tokenizer,
                            const std::string& text) {
  const std::vector<TokenId> ids = tokenizer.Encode(text);
  std::vector<TokenId> second;  // without bytes
  for (size_t i = 0; i < ids.size(); i += 2) {
    const bool is_byte = tokenizer.TokenToId("<0x00>").has_value() &&
                         ids[i] >= *tokenizer.TokenToId("<0x00>") &&
                         ids[i] <= *tokenizer.TokenToId("<0xFF>");
    if (!is_byte) second.push_back(ids[i]);
  }
  const std::string decoded =
      absl::StrCat(tokenizer.Decode(ids, /*skip_special=*/false), "|",
                   tokenizer.Decode(second, /*skip_special=*/false), "|",
                   tokenizer.Decode(second, /*skip_special=*/true));
  return absl::StrCat(DigestOf(ids), " ",
                      DigestOf(tokenizer.Encode(text, SpecialText::kPlain)),
                      " ", DigestOf(std::string_view(decoded)));
}

// Planes 0 and 1 of Unicode hold nearly all characters whose properties differ.
// The other planes are compared nightly.
constexpr char32_t kFewPlanes = 0x20000, kAllPlanes = 0x110000;

std::vector<std::string> CodePointBlocks() {
  std::vector<std::string> blocks;
  for (char32_t begin = 0; begin < kAllPlanes; begin += 1024) {
    if (begin >= 0xD800 && begin < 0xE000) continue;
    std::string& text = blocks.emplace_back();
    for (char32_t c = begin; c < begin + 1024; ++c) {
      text += "a";
      AppendUtf8(c, text);
      text += " ";
      AppendUtf8(c, text);
    }
  }
  return blocks;
}

class CharacterGoldenTest : public testing::TestWithParam<const char*> {};

constexpr size_t kTexts = 1000;  // before the blocks of code points
constexpr size_t kFew = kTexts + (kFewPlanes - 0x800) / 1024;

void ExpectCharacterAnswers(const std::string& name, size_t begin, size_t end) {
  const auto tokenizer = LoadOrDie(Testdata(name));
  std::vector<std::string> texts = GoldenTexts();
  texts.resize(kTexts);
  for (std::string& block : CodePointBlocks()) texts.push_back(block);
  const std::vector<std::string> answers =
      ReadLines(Testdata(absl::StrCat(name, ".answers")));
  ASSERT_EQ(answers.size(), texts.size());
  for (size_t i = begin; i < std::min(end, answers.size()); ++i) {
    ASSERT_EQ(CharacterAnswer(*tokenizer, texts[i]), answers[i])
        << "text " << i << ": \"" << absl::CHexEscape(texts[i].substr(0, 300))
        << "\"\nour ids: "
        << absl::StrJoin(tokenizer->Encode(texts[i].substr(0, 300)), " ");
  }
}

TEST_P(CharacterGoldenTest, AgreesWithTokenizersOnTextsAndTwoPlanes) {
  ExpectCharacterAnswers(GetParam(), 0, kFew);
}

TEST_P(CharacterGoldenTest, NightlyAgreesWithTokenizersOnTheOtherPlanes) {
  ExpectCharacterAnswers(GetParam(), kFew, std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(All, CharacterGoldenTest,
                         testing::Values("llama2_style", "mistral_style",
                                         "gemma_style", "metaspace_style"),
                         [](const auto& test) { return test.param; });

TEST(DefaultModelGoldenTest, AgreesWithTokenizersOnEveryText) {
  const auto folder = DefaultModelFolder();
  if (folder.empty()) GTEST_SKIP() << "the default model is not here";
  ExpectGoldenAnswers(*LoadOrDie(folder), "default_model");
}

// "acc c1c!c'c\nc" for 1024 code points, as make_goldens.py's write_words().
std::string Neighbourhoods(char32_t begin) {
  std::string text;
  for (char32_t c = begin; c < begin + 1024; ++c) {
    for (std::string_view before : {"a", "", " ", "1", "!", "'", "\n"}) {
      text += before;
      AppendUtf8(c, text);
    }
  }
  return text;
}

std::string WordSizes(const PreTokenizer& pre_tokenizer,
                      std::string_view text) {
  Digest digest;
  pre_tokenizer.ForEachWord(text, /*at_start=*/true,
                            [&](std::string_view word) {
                              digest.Add(static_cast<uint32_t>(word.size()));
                            });
  return digest.Hex();
}

// Calls `check` with the first code point and the answers of each block of 1024
// from `first` to before `last`.
template <typename Check>
void ForEachBlock(const std::string& name, char32_t first, char32_t last,
                  const Check& check) {
  const std::vector<std::string> lines = ReadLines(Testdata(name));
  ASSERT_EQ(lines.size(), (kAllPlanes - 0x800) / 1024u);
  for (const std::string& line : lines) {
    const size_t space = line.find(' ');
    int begin = 0;
    ASSERT_TRUE(absl::SimpleHexAtoi(line.substr(0, space), &begin));
    const auto block = static_cast<char32_t>(begin);
    if (block < first || block >= last) continue;
    SCOPED_TRACE(line);
    check(block, line.substr(space + 1));
  }
}

void ExpectGoldenWords(char32_t first, char32_t last) {
  std::vector<PreTokenizer> pre_tokenizers = {
      SplitBy(kGpt2Pattern, /*split_digits=*/true), SplitBy(kGpt2Pattern)};
  for (const char* name : {"qwen2", "llama3", "gpt4o", "deepseek",
                           "deepseek_llm", "deepseek_coder", "tekken"}) {
    const auto text =
        ReadTextFile(Testdata(absl::StrCat(name, "_style/tokenizer.json")));
    ASSERT_TRUE(text.ok()) << text.status();
    const auto file = ParseTokenizerFile(*text);
    ASSERT_TRUE(file.ok()) << name << ": " << file.status();
    pre_tokenizers.push_back(file->pre_tokenizer);
  }
  ForEachBlock("code_points.answers", first, last,
               [&](char32_t begin, const std::string& answer) {
                 const std::string text = Neighbourhoods(begin);
                 std::vector<std::string> sizes;
                 for (const PreTokenizer& words : pre_tokenizers) {
                   sizes.push_back(WordSizes(words, text));
                 }
                 EXPECT_EQ(absl::StrJoin(sizes, " "), answer);
               });
}

TEST(PreTokenizerGoldenTest, CutsTwoPlanesAsTokenizersDoes) {
  ExpectGoldenWords(0, kFewPlanes);
}

TEST(PreTokenizerGoldenTest, NightlyCutsTheOtherPlanesAsTokenizersDoes) {
  ExpectGoldenWords(kFewPlanes, kAllPlanes);
}

// Writes like make_goldens.py's write_normal_forms().
std::string FormCandidates(char32_t begin) {
  std::string text;
  for (char32_t c = begin; c < begin + 1024; ++c) {
    std::string one;
    AppendUtf8(c, one);
    absl::StrAppend(&text, one, "\u0301 a", one, "\u0323", one, " \u0345", one,
                    " ", one, "\u1161\u11a8 \u1100", one, "\u11a8 ", one,
                    "\u0338e\u0327", one, "\u0302");
  }
  return text;
}

void ExpectGoldenForms(char32_t first, char32_t last) {
  ForEachBlock("normal_forms.answers", first, last,
               [](char32_t begin, const std::string& answer) {
                 const std::string text = FormCandidates(begin);
                 std::string digests;
                 for (NormalForm form : kNormalForms) {
                   const std::string normal = ToNormalForm(text, form);
                   digests += DigestOf(std::string_view(normal)) + " ";
                 }
                 const std::string lower = LowerCase(text);
                 EXPECT_EQ(digests + DigestOf(std::string_view(lower)), answer);
               });
}

TEST(NormalFormsGoldenTest, TwoPlanesAreNormalizedAsTokenizersDoes) {
  ExpectGoldenForms(0, kFewPlanes);
}

TEST(NormalFormsGoldenTest,
     NightlyTheOtherPlanesAreNormalizedAsTokenizersDoes) {
  ExpectGoldenForms(kFewPlanes, kAllPlanes);
}

TEST(NormalFormsGoldenTest, AreIdempotentAndLeaveAsciiAlone) {
  const auto nfc = [](std::string_view text) {
    return ToNormalForm(text, NormalForm::kNfc);
  };
  EXPECT_EQ(nfc("e\u0323\u0302"), "\u1ec7");
  EXPECT_EQ(nfc("e\u0302\u0323"), "\u1ec7");
  for (NormalForm form : kNormalForms) {
    EXPECT_EQ(ToNormalForm("plain \n text", form), "plain \n text");
    for (const std::string& text : GoldenTexts()) {
      const std::string once = ToNormalForm(RepairUtf8(text), form);
      EXPECT_EQ(ToNormalForm(once, form), once);
    }
  }
}

}  // namespace
}  // namespace espalier
