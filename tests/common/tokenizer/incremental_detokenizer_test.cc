#include "common/tokenizer/incremental_detokenizer.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "common/base/utf8.h"
#include "tests/common/tokenizer/golden_files.h"

namespace espalier {
namespace {

// Streams `ids`; every piece must be valid UTF-8 by itself.
std::string Stream(const Tokenizer& tokenizer, const std::vector<TokenId>& ids,
                   bool skip_special) {
  IncrementalDetokenizer stream(&tokenizer, {.skip_special = skip_special});
  std::string text;
  for (TokenId id : ids) {
    const std::string piece = stream.Push(id);
    EXPECT_EQ(RepairUtf8(piece), piece);
    text += piece;
  }
  return text + stream.Flush();
}

TEST(IncrementalDetokenizerTest, WaitsForTheRestOfACharacter) {
  const auto tokenizer = LoadOrDie(Testdata("gpt2_style"));
  // No token is the whole owl: it takes four.
  const std::vector<TokenId> ids = tokenizer->Encode("🦉");
  ASSERT_GT(ids.size(), 1u);
  IncrementalDetokenizer stream(tokenizer.get(), {});
  for (size_t i = 0; i + 1 < ids.size(); ++i) {
    EXPECT_EQ(stream.Push(ids[i]), "");
  }
  EXPECT_EQ(stream.Push(ids.back()), "🦉");
  EXPECT_EQ(stream.Flush(), "");
}

TEST(IncrementalDetokenizerTest, EndsAnUnfinishedCharacter) {
  const auto tokenizer = LoadOrDie(Testdata("gpt2_style"));
  IncrementalDetokenizer stream(tokenizer.get(), {});
  EXPECT_EQ(stream.Push(tokenizer->Encode("🦉")[0]), "");
  EXPECT_EQ(stream.Flush(), "\uFFFD");
  EXPECT_EQ(stream.Flush(), "");
}

TEST(IncrementalDetokenizerTest, WaitsForBytesThatAreTokens) {
  const auto tokenizer = LoadOrDie(Testdata("llama2_style"));
  const std::vector<TokenId> ids = {*tokenizer->TokenToId("<0xE2>"),
                                    *tokenizer->TokenToId("<0x82>"),
                                    *tokenizer->TokenToId("<0xAC>")};
  IncrementalDetokenizer stream(tokenizer.get(), {});
  EXPECT_EQ(stream.Push(ids[0]), "");
  EXPECT_EQ(stream.Push(ids[1]), "");
  EXPECT_EQ(stream.Push(ids[2]), "€");
  EXPECT_EQ(stream.Push(ids[0]), "");
  EXPECT_EQ(stream.Push(*tokenizer->TokenToId("e")), "\uFFFDe");
  EXPECT_EQ(stream.Push(ids[0]), "");
  EXPECT_EQ(stream.Flush(), "\uFFFD");
}

TEST(IncrementalDetokenizerTest, KeepsTheSpaceThatContinuesAPrompt) {
  const auto tokenizer = LoadOrDie(Testdata("llama2_style"));
  const std::vector<TokenId> ids = tokenizer->Encode("the tree");
  EXPECT_EQ(tokenizer->Decode(ids, /*skip_special=*/true), "the tree");
  EXPECT_EQ(Stream(*tokenizer, ids, /*skip_special=*/true), " the tree");
}

TEST(IncrementalDetokenizerTest, StreamsGoldenTextsAsDecodeDoes) {
  const auto tokenizer = LoadOrDie(Testdata("small"));
  for (const std::string& text : GoldenTexts()) {
    const std::vector<TokenId> ids = tokenizer->Encode(text);
    for (bool skip_special : {false, true}) {
      EXPECT_EQ(Stream(*tokenizer, ids, skip_special),
                tokenizer->Decode(ids, skip_special));
    }
  }
}

TEST(IncrementalDetokenizerTest, StreamsRandomIdsAsDecodeDoes) {
  const auto tokenizer = LoadOrDie(Testdata("gpt2_style"));
  std::mt19937 random(3);
  // Some ids are outside both ends of the vocabulary: unknown ones add nothing.
  std::uniform_int_distribution<TokenId> any(
      -3, static_cast<TokenId>(tokenizer->vocab_size()) + 3);
  // Ids below 257 are single bytes, so that sequences break in many ways.
  std::uniform_int_distribution<TokenId> byte(1, 256);
  for (int round = 0; round < 3000; ++round) {
    std::vector<TokenId> ids;
    for (int i = 0; i < 20; ++i) {
      ids.push_back(round % 2 == 0 ? any(random) : byte(random));
    }
    for (bool skip_special : {false, true}) {
      EXPECT_EQ(Stream(*tokenizer, ids, skip_special),
                tokenizer->Decode(ids, skip_special));
    }
  }
}

TEST(IncrementalDetokenizerTest, LeavesOutSpecialTokensOnRequest) {
  const auto tokenizer = LoadOrDie(Testdata("small"));
  const auto ids = tokenizer->Encode("tree<|im_end|> wall<think>");
  EXPECT_EQ(Stream(*tokenizer, ids, /*skip_special=*/true), "tree wall<think>");
  EXPECT_EQ(Stream(*tokenizer, ids, /*skip_special=*/false),
            "tree<|im_end|> wall<think>");
}

}  // namespace
}  // namespace espalier
