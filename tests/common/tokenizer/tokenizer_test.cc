#include "common/tokenizer/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/utf8.h"
#include "tests/common/tokenizer/golden_files.h"

namespace espalier {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

// Returns tokens a, b, ab, and some added ones; all bytes except a and b have
// no token.
TokenizerFile Letters() {
  return {.vocabulary = {{"a", 0}, {"b", 1}, {"ab", 2}},
          .merges = {{"a", "b"}},
          .added_tokens = {{.id = 3, .content = "<s>", .special = true},
                           {.id = 4, .content = "<s><t>", .special = true},
                           {.id = 5, .content = "<t>"},
                           {.id = 9, .content = "€", .normalized = true}}};
}

std::unique_ptr<Tokenizer> Create(const TokenizerFile& file) {
  auto tokenizer = Tokenizer::Create(file, {});
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

TEST(TokenizerTest, CutsAddedTokensOutOfTheTextLongestFirst) {
  const auto tokenizer = Create(Letters());
  EXPECT_THAT(tokenizer->Encode("ab<s>ab"), ElementsAre(2, 3, 2));
  EXPECT_THAT(tokenizer->Encode("<s><t><t>"), ElementsAre(4, 5));
  EXPECT_THAT(tokenizer->Encode("a€b"), ElementsAre(0, 9, 1));
}

TEST(TokenizerTest, ReadsSpecialTokensAsTextOnRequest) {
  const auto tokenizer = Create(Letters());
  EXPECT_THAT(tokenizer->Encode("ab<s>ab", SpecialText::kPlain),
              ElementsAre(2, 2));
  EXPECT_THAT(tokenizer->Encode("<t>a", SpecialText::kPlain),
              ElementsAre(5, 0));
}

TEST(TokenizerTest, ReadsNoSpecialTokenThatAUserWroteAPartOf) {
  const auto tokenizer = Create(Letters());
  const std::string text = "<s>a<s>b<s>";
  EXPECT_THAT(tokenizer->EncodeMixed(text, {}), ElementsAre(3, 0, 3, 1, 3));
  const std::vector<ByteRange> plain = {{.begin = 4, .end = 5},
                                        {.begin = 9, .end = 10}};
  EXPECT_THAT(tokenizer->EncodeMixed(text, plain), ElementsAre(3, 2));
  // What is not special is read anywhere; of two tokens the shorter one may be
  // the template's.
  EXPECT_THAT(tokenizer->EncodeMixed("<s><t>", {{{.begin = 3, .end = 6}}}),
              ElementsAre(3, 5));
}

TEST(TokenizerTest, FindsSpecialTokensAsTheyAreSpelled) {
  const auto tokenizer = Create(Letters());
  const auto found = tokenizer->FindSpecial("a<t><s>", 0);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->begin, 4u);
  EXPECT_EQ(found->end, 7u);
  EXPECT_FALSE(tokenizer->FindSpecial("a<t><s>", 5).has_value());
}

// A normalizer moves bytes, so that such a part is trusted or not as a whole.
TEST(TokenizerTest, TrustsNoNormalizedSpecialTokenWhereAUserSpellsOne) {
  TokenizerFile file = Letters();
  file.normalizer.Add(
      {.kind = Normalizer::Kind::kReplace, .from = "_", .to = "ab"});
  file.added_tokens.push_back(
      {.id = 6, .content = "<n>", .special = true, .normalized = true});
  const auto tokenizer = Create(file);
  const std::vector<ByteRange> user = {{.begin = 4, .end = 7}};
  EXPECT_THAT(tokenizer->EncodeMixed("<n>_aba", user), ElementsAre(6, 2, 2, 0));
  EXPECT_THAT(tokenizer->EncodeMixed("<n>_<n>", user), ElementsAre(2));
}

TEST(TokenizerTest, CountsGapsBetweenIdsButKnowsThemNot) {
  const auto tokenizer = Create(Letters());
  EXPECT_EQ(tokenizer->vocab_size(), 10);
  EXPECT_EQ(tokenizer->Decode({0, 7, -1, 1000, 9, 3}, /*skip_special=*/false),
            "a€<s>");
  EXPECT_EQ(tokenizer->Decode({0, 7, -1, 1000, 9, 3}, /*skip_special=*/true),
            "a€");
}

TEST(TokenizerTest, FindsTokensByTheirSpelling) {
  const auto tokenizer = LoadOrDie(Testdata("small"));
  EXPECT_EQ(tokenizer->TokenToId("<|im_end|>"), 2);
  EXPECT_TRUE(tokenizer->IsSpecial(2));
  const auto the = tokenizer->TokenToId("Ġtree");
  ASSERT_TRUE(the.has_value());
  EXPECT_EQ(tokenizer->BytesOf(*the), " tree");
  EXPECT_FALSE(tokenizer->IsSpecial(*the));
  EXPECT_EQ(tokenizer->TokenToId("nowhere"), std::nullopt);
}

TEST(TokenizerTest, RestoresAnyTextWhenEveryByteHasAToken) {
  const auto tokenizer = LoadOrDie(Testdata("gpt2_style"));
  for (const std::string& text : GoldenTexts()) {
    EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(text),
                                /*skip_special=*/false),
              RepairUtf8(text));
  }
}

TEST(TokenizerTest, EncodesAMegabyteOfAnything) {
  // Quadratic work would exceed the time limit of the test.
  constexpr size_t kSize = 1 << 20;
  const auto tokenizer = LoadOrDie(Testdata("gpt2_style"));
  for (std::string_view unit :
       {"a", " ", "\n", "1", "<", "'", "ee", "\xF0", "é", " \t", "<|im_"}) {
    std::string text;
    while (text.size() < kSize) text += unit;
    EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(text),
                                /*skip_special=*/false),
              RepairUtf8(text));
  }
}

TEST(FingerprintTest, IsTheSameForTheSameTokenizer) {
  EXPECT_EQ(LoadOrDie(Testdata("small"))->fingerprint(),
            LoadOrDie(Testdata("small/tokenizer.json"))->fingerprint());
}

TEST(FingerprintTest, ChangesWithEverythingThatChangesIds) {
  const std::vector<std::function<void(TokenizerFile&)>> changes = {
      [](TokenizerFile&) {},
      [](TokenizerFile& f) { f.vocabulary["c"] = 6; },
      [](TokenizerFile& f) { std::swap(f.vocabulary["a"], f.vocabulary["b"]); },
      [](TokenizerFile& f) { f.merges.clear(); },
      [](TokenizerFile& f) {
        f.merges.push_back({"b", "a"});
      },
      [](TokenizerFile& f) {
        f.merges.insert(f.merges.begin(), {"b", "a"});
      },
      [](TokenizerFile& f) { f.pre_tokenizer.split_digits = 0; },
      [](TokenizerFile& f) {
        f.pre_tokenizer = SplitBy(kGpt2Pattern);
        f.pre_tokenizer.split_digits = 1;
      },
      [](TokenizerFile& f) { f.pre_tokenizer = SplitBy(kGpt2Pattern); },
      [](TokenizerFile& f) { f.pre_tokenizer = SplitBy(kQwen2Pattern); },
      [](TokenizerFile& f) { f.pre_tokenizer = SplitBy("ab"); },
      [](TokenizerFile& f) {
        f.pre_tokenizer = SplitBy("ab");
        f.pre_tokenizer.splits.push_back(f.pre_tokenizer.splits[0]);
      },
      [](TokenizerFile& f) { f.normalizer.Add({.form = NormalForm::kNfc}); },
      [](TokenizerFile& f) { f.normalizer.Add({.form = NormalForm::kNfkc}); },
      [](TokenizerFile& f) {
        f.normalizer.Add({.kind = Normalizer::Kind::kLower});
      },
      [](TokenizerFile& f) { f.added_tokens[0].single_word = true; },
      [](TokenizerFile& f) { f.added_tokens[0].left_blanks = true; },
      [](TokenizerFile& f) { f.added_tokens[0].right_blanks = true; },
      [](TokenizerFile& f) { f.added_tokens[0].special = false; },
      [](TokenizerFile& f) { f.added_tokens[0].normalized = true; },
      [](TokenizerFile& f) { f.added_tokens[0].content = "<s"; },
      [](TokenizerFile& f) { f.added_tokens[0].id = 7; },
      [](TokenizerFile& f) { f.added_tokens.pop_back(); },
  };
  std::set<uint64_t> fingerprints;
  for (const auto& change : changes) {
    TokenizerFile file = Letters();
    file.vocabulary["ba"] = 8;
    change(file);
    fingerprints.insert(Create(file)->fingerprint());
  }
  EXPECT_EQ(fingerprints.size(), changes.size());
}

// Each test has its own folder with the small tokenizer.
class ModelFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    fs::copy(Testdata("small/tokenizer.json"), folder_ / "tokenizer.json");
  }
  void TearDown() override { fs::remove_all(folder_); }

  void Write(const char* name, const char* text) {
    std::ofstream(folder_ / name) << text;
  }

  const fs::path folder_ =
      fs::path(testing::TempDir()) /
      testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(ModelFolderTest, HasNoEosWhenNothingSaysSo) {
  EXPECT_THAT(LoadOrDie(folder_)->eos_ids(), ElementsAre());
  EXPECT_EQ(LoadOrDie(folder_)->chat_template(), "");
}

TEST_F(ModelFolderTest, GathersEosFromEveryFile) {
  Write("generation_config.json", R"({"eos_token_id": [5, 0]})");
  Write("config.json", R"({"eos_token_id": 5})");
  Write("tokenizer_config.json",
        R"({"eos_token": {"content": "<|im_end|>"}, "chat_template":
            [{"name": "tools", "template": "t"},
             {"name": "default", "template": "d"}]})");
  EXPECT_THAT(LoadOrDie(folder_)->eos_ids(), ElementsAre(0, 2, 5));
  EXPECT_EQ(LoadOrDie(folder_)->chat_template(), "d");
}

TEST_F(ModelFolderTest, TheTemplateOfItsOwnFileCounts) {
  Write("tokenizer_config.json", R"({"chat_template": "old"})");
  Write("chat_template.jinja", "new\n");
  EXPECT_EQ(LoadOrDie(folder_)->chat_template(), "new\n");
}

TEST_F(ModelFolderTest, NamesTheSettingThatIsWrong) {
  const std::vector<std::vector<const char*>> cases = {
      {"config.json", "{", "not valid JSON"},
      {"config.json", R"({"eos_token_id": "2"})", "eos_token_id"},
      {"config.json", R"({"eos_token_id": [2, -1]})", "eos_token_id"},
      {"generation_config.json", "[]", "must be a JSON object"},
      {"tokenizer_config.json", R"({"eos_token": 2})", "eos_token"},
      {"tokenizer_config.json", R"({"chat_template": 2})", "chat_template"},
      {"tokenizer_config.json",
       R"({"chat_template": [{"name": "rag", "template": "t"}]})",
       "no template is named"},
  };
  for (const auto& bad : cases) {
    Write(bad[0], bad[1]);
    const absl::Status status = Tokenizer::Load(folder_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad[1];
    EXPECT_THAT(
        std::string(status.message()),
        AllOf(HasSubstr((folder_ / bad[0]).string()), HasSubstr(bad[2])));
    fs::remove(folder_ / bad[0]);
  }
}

TEST_F(ModelFolderTest, RefusesAnEosThatIsNoToken) {
  Write("config.json", R"({"eos_token_id": 99999})");
  EXPECT_THAT(std::string(Tokenizer::Load(folder_).status().message()),
              HasSubstr("99999"));
}

TEST_F(ModelFolderTest, AddsAnEosThatIsNoTokenYet) {
  const int64_t size = LoadOrDie(folder_)->vocab_size();
  Write("tokenizer_config.json", R"({"eos_token": "<none>"})");
  EXPECT_THAT(LoadOrDie(folder_)->eos_ids(), ElementsAre(size));
}

TEST_F(ModelFolderTest, NamesTheFileThatIsMissingOrBroken) {
  const fs::path file = folder_ / "tokenizer.json";
  Write("tokenizer.json", "{\"model\":");
  EXPECT_THAT(std::string(Tokenizer::Load(folder_).status().message()),
              HasSubstr(file.string() + ": not valid JSON"));
  fs::remove(file);
  const absl::Status status = Tokenizer::Load(folder_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr(file.string()));
}

}  // namespace
}  // namespace espalier
