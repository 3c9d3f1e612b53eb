#include "common/model/files/gguf_tokenizer.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/base/utf8.h"
#include "common/model/files/gguf_end_tokens.h"
#include "common/model/files/model_identity.h"
#include "common/tokenizer/tokenizer_file.h"
#include "common/tokenizer/tokenizer_settings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/common/tokenizer/golden_files.h"
#include "tests/testing/tiny_gguf.h"
#include "tests/testing/tiny_model.h"

namespace espalier {
namespace {

using ::testing::AllOf;
using testing::Array;
using ::testing::ElementsAre;
using testing::GgufBytes;
using ::testing::HasSubstr;
using testing::kArray;
using testing::kInt32;
using testing::kString;
using testing::kUint32;
using testing::Pair;
using testing::Raw;
using testing::Str;

class GgufTokenizerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = ::testing::TempDir() + "/gguf_tokenizer_test_" +
            ::testing::UnitTest::GetInstance()->current_test_info()->name() +
            ".gguf";
    file_.pairs = testing::TinyTokenizerPairs("gpt-2");
  }
  void TearDown() override { std::filesystem::remove_all(path_); }

  absl::StatusOr<std::unique_ptr<Tokenizer>> Load() const {
    testing::WriteBytes(path_, file_.Bytes());
    return LoadTokenizer(path_);
  }

  void Set(const std::string& key, uint32_t type, const std::string& value) {
    std::erase_if(file_.pairs, [&](const std::string& pair) {
      return pair.rfind(Str(key), 0) == 0;
    });
    file_.pairs.push_back(Pair(key, type, value));
  }

  // The metadata that llama.cpp's converter makes of a tokenizer.json.
  void SetTokenizer(const TokenizerFile& file, const std::string& pre) {
    std::vector<std::string> tokens;
    std::vector<int32_t> types;
    const auto set = [&](TokenId id, const std::string& text, int32_t type) {
      tokens.resize(std::max<size_t>(tokens.size(), id + 1));
      types.resize(tokens.size(), 5);
      tokens[id] = text;
      types[id] = type;
    };
    for (const auto& [token, id] : file.vocabulary) set(id, token, 1);
    for (const AddedToken& added : file.added_tokens) {
      set(added.id, added.content, added.special ? 3 : 4);
    }
    std::string all_tokens, all_types, merges;
    for (const std::string& token : tokens) all_tokens += Str(token);
    for (int32_t type : types) all_types += Raw(type);
    for (const auto& [left, right] : file.merges) {
      merges += Str(left + " " + right);
    }
    Set("tokenizer.ggml.pre", kString, Str(pre));
    Set("tokenizer.ggml.tokens", kArray,
        Array(kString, tokens.size(), all_tokens));
    Set("tokenizer.ggml.token_type", kArray,
        Array(kInt32, types.size(), all_types));
    Set("tokenizer.ggml.merges", kArray,
        Array(kString, file.merges.size(), merges));
    Set("tokenizer.ggml.eos_token_id", kUint32, Raw<uint32_t>(1));
  }

  void ExpectError(absl::StatusCode code, const std::string& text) const {
    const absl::Status status = Load().status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(status.message(), AllOf(HasSubstr(path_), HasSubstr(text)));
  }

  std::string path_;
  GgufBytes file_;
};

// The tokenizers whose answers are those of the `tokenizers` package.
TEST_F(GgufTokenizerTest, GivesTheIdsOfTokenizerJson) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"small", "smollm"},
      {"small", "starcoder"},
      {"gpt2_style", "gpt-2"},
      {"qwen2_style", "qwen2"},
      {"llama3_style", "llama3"},
      {"gpt4o_style", "gpt-4o"},
      {"gpt4o_style", "llama4"},
      {"tekken_style", "tekken"},
      {"deepseek_style", "deepseek-v3"},
      {"deepseek_llm_style", "deepseek-llm"},
      {"deepseek_coder_style", "deepseek-coder"}};
  for (const auto& [name, pre] : cases) {
    SCOPED_TRACE(name);
    const auto json = ReadTextFile(Testdata(name) / "tokenizer.json");
    ASSERT_TRUE(json.ok()) << json.status();
    auto parsed = ParseTokenizerFile(*json);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    // A token that ends a text is a control token by its name, whatever the
    // file says.
    for (AddedToken& added : parsed->added_tokens) {
      if (!IsGgufEndToken(added.content)) continue;
      added.special = true;
      added.normalized = false;
    }
    // A GGUF file does not say which added tokens are normalized.
    std::erase_if(parsed->added_tokens,
                  [](const AddedToken& added) { return added.normalized; });
    const auto expected = Tokenizer::Create(*parsed, {});
    ASSERT_TRUE(expected.ok()) << expected.status();
    SetTokenizer(*parsed, pre);
    const auto tokenizer = Load();
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    for (const std::string& text : GoldenTexts()) {
      for (SpecialText special : {SpecialText::kToken, SpecialText::kPlain}) {
        ASSERT_EQ((*tokenizer)->Encode(text, special),
                  (*expected)->Encode(text, special))
            << text;
      }
    }
    EXPECT_THAT((*tokenizer)->eos_ids(), ::testing::Contains(1));
  }
}

// Whatever the file says of their types.
TEST_F(GgufTokenizerTest, TokensOfKnownNamesEndAText) {
  TokenizerFile file;
  file.vocabulary = {{"a", 0}, {"<|eot_id|>", 1}, {"<|im_start|>", 2}};
  file.added_tokens = {{.id = 3, .content = "<end_of_turn>"},
                       {.id = 4, .content = "<|end|>", .special = true}};
  SetTokenizer(file, "gpt-2");
  Set("tokenizer.ggml.eos_token_id", kUint32, Raw<uint32_t>(0));
  auto tokenizer = Load();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT((*tokenizer)->eos_ids(), ElementsAre(0, 1, 3, 4));
  EXPECT_TRUE((*tokenizer)->IsSpecial(1));
  EXPECT_TRUE((*tokenizer)->IsSpecial(3));
  EXPECT_FALSE((*tokenizer)->IsSpecial(2));
  // If <|end|> ends a part of a turn, it is no end.
  file.vocabulary["<|return|>"] = 5;
  file.vocabulary["<|call|>"] = 6;
  SetTokenizer(file, "gpt-2");
  Set("tokenizer.ggml.eos_token_id", kUint32, Raw<uint32_t>(0));
  tokenizer = Load();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT((*tokenizer)->eos_ids(), ElementsAre(0, 1, 3, 5, 6));
}

// The metadata name another end token than the template's.
TEST_F(GgufTokenizerTest, WhatEndsATurnByTheTemplateEndsAText) {
  testing::TinyTensors tensors =
      testing::WriteTinyLlama(::testing::TempDir() + "gguf_turns");
  file_ = testing::TinyGguf("llama", tensors);
  std::string types;
  for (int i = 0; i < testing::kTinyVocab; ++i) {
    types += Raw<int32_t>(i < 256 ? 1 : 3);
  }
  Set("tokenizer.ggml.token_type", kArray,
      Array(kInt32, testing::kTinyVocab, types));
  Set("tokenizer.ggml.eos_token_id", kUint32, Raw<uint32_t>(0));
  Set("tokenizer.chat_template", kString,
      Str("{% for m in messages %}{{ m.content }}<|im_start|>{% endfor %}"));
  testing::WriteBytes(path_, file_.Bytes());
  const auto target = IdentifyTarget(path_, "");
  ASSERT_TRUE(target.ok()) << target.status();
  EXPECT_THAT(target->end_tokens,
              ElementsAre(0, testing::kTinyImStart, testing::kTinyImEnd));
}

TEST_F(GgufTokenizerTest, WordsOfLlamaTakeNoMerges) {
  TokenizerFile file;
  for (int byte = 'a'; byte <= 'd'; ++byte) {
    file.vocabulary[std::string(1, static_cast<char>(byte))] = byte - 'a';
  }
  for (const char* token : {"ab", "abcd", "bc"}) {
    file.vocabulary[token] = static_cast<TokenId>(file.vocabulary.size());
  }
  file.merges = {{"b", "c"}, {"a", "b"}};
  SetTokenizer(file, "llama-bpe");
  const auto tokenizer = Load();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT((*tokenizer)->Encode("abcd"), ElementsAre(5));
  EXPECT_THAT((*tokenizer)->Encode("abc"), ElementsAre(0, 6));
  SetTokenizer(file, "gpt-2");
  EXPECT_THAT((*Load())->Encode("abcd"), ElementsAre(0, 6, 3));
}

TEST_F(GgufTokenizerTest, ReadsEndTokensAndTemplate) {
  Set("tokenizer.ggml.eot_token_id", kUint32, Raw<uint32_t>(7));
  Set("tokenizer.chat_template", kString, Str("<|im_start|>..."));
  const auto tokenizer = Load();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT((*tokenizer)->eos_ids(), ElementsAre(7, testing::kTinyImEnd));
  EXPECT_EQ((*tokenizer)->chat_template(), "<|im_start|>...");
  EXPECT_TRUE((*tokenizer)->IsSpecial(testing::kTinyImStart));
  EXPECT_EQ((*tokenizer)->vocab_size(), testing::kTinyVocab);
}

TEST_F(GgufTokenizerTest, UnusedTokensAreNoTokens) {
  std::string types;
  for (int i = 0; i < 256; ++i) types += Raw<int32_t>(1);
  Set("tokenizer.ggml.token_type", kArray,
      Array(kInt32, 258, types + Raw<int32_t>(5) + Raw<int32_t>(3)));
  const auto tokenizer = Load();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_FALSE((*tokenizer)->TokenToId("<|im_start|>").has_value());
  EXPECT_EQ((*tokenizer)->BytesOf(testing::kTinyImStart), "");
}

// Pieces, scores and ids of the `sentencepiece` package
// (make_sentencepiece_goldens.py).
TEST_F(GgufTokenizerTest, GivesTheIdsOfSentencePiece) {
  std::ifstream file(Testdata("sentencepiece") / "pieces.json");
  const auto pieces = nlohmann::json::parse(file);
  std::string tokens, scores, types;
  for (const auto& piece : pieces) {
    tokens += Str(piece[0]);
    scores += Raw(piece[1].get<float>());
    types += Raw(piece[2].get<int32_t>());
  }
  file_.pairs.clear();
  Set("general.architecture", kString, Str("llama"));
  Set("tokenizer.ggml.model", kString, Str("llama"));
  Set("tokenizer.ggml.tokens", kArray, Array(kString, pieces.size(), tokens));
  Set("tokenizer.ggml.scores", kArray,
      Array(testing::kFloat32, pieces.size(), scores));
  Set("tokenizer.ggml.token_type", kArray, Array(kInt32, pieces.size(), types));
  Set("tokenizer.ggml.bos_token_id", kUint32, Raw<uint32_t>(1));
  Set("tokenizer.ggml.eos_token_id", kUint32, Raw<uint32_t>(2));
  const auto tokenizer = Load();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT((*tokenizer)->prefix(), ElementsAre(1));
  EXPECT_EQ((*tokenizer)->named_tokens().at("bos_token"), "<s>");
  const std::vector<std::string> texts = GoldenTexts();
  const std::vector<std::string> answers =
      ReadLines(Testdata("sentencepiece") / "ids.answers");
  ASSERT_EQ(answers.size(), 1000u);
  for (size_t i = 0; i < answers.size(); ++i) {
    const auto ids = (*tokenizer)->Encode(texts[i], SpecialText::kPlain);
    ASSERT_EQ(DigestOf(ids), answers[i]) << i << ": " << texts[i];
    EXPECT_EQ((*tokenizer)->Decode(ids, /*skip_special=*/true),
              RepairUtf8(texts[i]));
  }
}

TEST_F(GgufTokenizerTest, ErrorsNameTheKey) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  constexpr auto kUnknown = absl::StatusCode::kUnimplemented;
  const GgufBytes good = file_;
  const auto expect = [&](const std::string& key, uint32_t type,
                          const std::string& value, absl::StatusCode code,
                          const std::string& text) {
    SCOPED_TRACE(text);
    file_ = good;
    Set(key, type, value);
    ExpectError(code, text);
  };
  expect("tokenizer.ggml.model", kString, Str("bert"), kUnknown,
         "tokenizer.ggml.model \"bert\" is not implemented; known: gpt2, "
         "llama");
  expect("tokenizer.ggml.model", kString, Str("llama"),
         absl::StatusCode::kNotFound, "tokenizer.ggml.scores");
  expect("tokenizer.ggml.add_eos_token", testing::kBool, Raw<uint8_t>(1),
         kUnknown, "tokenizer.ggml.add_eos_token");
  expect("tokenizer.ggml.pre", kString, Str("viking"), kUnknown,
         "known: gpt-2, smollm, starcoder, ");
  expect("tokenizer.ggml.token_type", kArray, Array(kInt32, 1, Raw<int32_t>(1)),
         kInvalid, "tokenizer.ggml.token_type 1");
  expect("tokenizer.ggml.tokens", kUint32, Raw<uint32_t>(1), kInvalid,
         "tokenizer.ggml.tokens is of another type");
  expect("tokenizer.ggml.merges", kArray, Array(kString, 1, Str("a b c")),
         kInvalid, "tokenizer.ggml.merges[0]");
  expect("tokenizer.ggml.merges", kArray, Array(kString, 1, Str("a b")),
         kInvalid, "merges[0]: no token \"ab\"");
  expect("tokenizer.ggml.eos_token_id", kUint32, Raw<uint32_t>(5000), kInvalid,
         "eos_token_id");
  std::string tokens, types;
  for (const char* token : {"a", "a"}) tokens += Str(token);
  for (int i = 0; i < 2; ++i) types += Raw<int32_t>(1);
  file_ = good;
  Set("tokenizer.ggml.token_type", kArray, Array(kInt32, 2, types));
  Set("tokenizer.ggml.tokens", kArray, Array(kString, 2, tokens));
  ExpectError(kInvalid, "tokenizer.ggml.tokens[1], \"a\", is there twice");
  Set("tokenizer.ggml.tokens", kArray,
      Array(kString, 2, Str("a") + Str("\xff")));
  ExpectError(kInvalid, "is not UTF-8");
}

TEST_F(GgufTokenizerTest, MutatedFilesNeverCrash) {
  const std::string good = file_.Bytes();
  std::mt19937 random(13);
  int refused = 0, loaded = 0;
  for (int i = 0; i < 1500; ++i) {
    std::string bytes = good;
    for (int change = 0; change < 1 + i % 3; ++change) {
      bytes[random() % bytes.size()] ^= static_cast<char>(1 << random() % 8);
    }
    testing::WriteBytes(path_, bytes);
    const auto tokenizer = LoadTokenizer(path_);
    (tokenizer.ok() ? loaded : refused) += 1;
    if (tokenizer.ok()) (*tokenizer)->Encode("Some text, <|im_end|>\xff");
  }
  EXPECT_GT(refused, 100);
  EXPECT_GT(loaded, 10);
}

}  // namespace
}  // namespace espalier
