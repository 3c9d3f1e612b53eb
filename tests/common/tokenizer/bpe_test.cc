#include "common/tokenizer/bpe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace espalier {
namespace {

using testing::ElementsAre;

constexpr TokenId kA = 0, kB = 1, kC = 2, kAb = 3, kBc = 4, kAa = 5, kAbc = 6;

// Single letters a, b, c; "bc" is merged before "ab".
TokenizerFile LettersAndMerges() {
  return {.vocabulary = {{"a", kA},
                         {"b", kB},
                         {"c", kC},
                         {"ab", kAb},
                         {"bc", kBc},
                         {"aa", kAa},
                         {"abc", kAbc}},
          .merges = {{"b", "c"}, {"a", "b"}, {"a", "a"}, {"a", "bc"}}};
}

std::vector<TokenId> Encode(const Bpe& bpe, std::string_view word) {
  Bpe::Workspace workspace;
  std::vector<TokenId> ids;
  bpe.EncodeWord(word, workspace, ids);
  return ids;
}

TEST(BpeTest, MergesTheMostUrgentPairFirst) {
  const auto bpe = Bpe::Create(LettersAndMerges());
  ASSERT_TRUE(bpe.ok());
  EXPECT_THAT(Encode(*bpe, "abb"), ElementsAre(kAb, kB));
  EXPECT_THAT(Encode(*bpe, "abc"), ElementsAre(kAbc));
}

TEST(BpeTest, MergesTheLeftmostOfEqualPairs) {
  const auto bpe = Bpe::Create(LettersAndMerges());
  ASSERT_TRUE(bpe.ok());
  EXPECT_THAT(Encode(*bpe, "aaaaa"), ElementsAre(kAa, kAa, kA));
}

TEST(BpeTest, DropsBytesWithoutATokenAndMergesAcrossThem) {
  const auto bpe = Bpe::Create(LettersAndMerges());
  ASSERT_TRUE(bpe.ok());
  EXPECT_THAT(Encode(*bpe, "axb"), ElementsAre(kAb));
  EXPECT_THAT(Encode(*bpe, "xyz"), ElementsAre());
}

TEST(BpeTest, RefusesAMergeOfUnknownTokens) {
  TokenizerFile file = LettersAndMerges();
  file.merges.push_back({"c", "a"});
  const absl::Status status = Bpe::Create(file).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(testing::HasSubstr("model.merges[4]"),
                             testing::HasSubstr("\"ca\"")));
}

TEST(BpeTest, RefusesAnUnknownTokenThatWouldBeNeeded) {
  TokenizerFile file = LettersAndMerges();
  file.unknown_token = "a";
  const absl::Status status = Bpe::Create(file).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr("model.unk_token"));
}

// Merges by the definition, with one scan of the word per merge.
std::vector<std::string> MergeByDefinition(const TokenizerFile& file,
                                           std::string_view word) {
  std::vector<std::string> parts;
  for (char c : word) parts.emplace_back(1, c);
  while (true) {
    size_t best_rank = file.merges.size();
    size_t best = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      for (size_t rank = 0; rank < best_rank; ++rank) {
        if (file.merges[rank] == std::pair(parts[i], parts[i + 1])) {
          best_rank = rank;
          best = i;
        }
      }
    }
    if (best_rank == file.merges.size()) return parts;
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

TEST(BpeTest, AgreesWithTheDefinitionForRandomMerges) {
  std::mt19937 random(2);
  for (int round = 0; round < 100; ++round) {
    TokenizerFile file{.vocabulary = {{"a", 0}, {"b", 1}}};
    std::vector<std::string> tokens = {"a", "b"};
    for (int i = 0; i < 12; ++i) {
      const std::string left = tokens[random() % tokens.size()];
      const std::string right = tokens[random() % tokens.size()];
      const auto id = static_cast<TokenId>(file.vocabulary.size());
      if (!file.vocabulary.try_emplace(left + right, id).second) continue;
      tokens.push_back(left + right);
      file.merges.insert(
          file.merges.begin() +
              static_cast<std::ptrdiff_t>(random() % (file.merges.size() + 1)),
          {left, right});
    }
    const auto bpe = Bpe::Create(file);
    ASSERT_TRUE(bpe.ok());
    std::string word;
    for (int i = 0; i < 40; ++i) word += "ab"[random() % 2];
    std::vector<TokenId> expected;
    for (const std::string& part : MergeByDefinition(file, word)) {
      expected.push_back(file.vocabulary.at(part));
    }
    EXPECT_EQ(Encode(*bpe, word), expected);
  }
}

}  // namespace
}  // namespace espalier
