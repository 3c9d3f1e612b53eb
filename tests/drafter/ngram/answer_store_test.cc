#include "drafter/ngram/answer_store.h"

#include <algorithm>
#include <map>
#include <random>

#include "drafter/ngram/answer_store_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/drafter/draft_testing.h"

namespace espalier::drafter::answer_store_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

using Text = std::vector<TokenId>;

constexpr AnswerStore::Options kOptions = {
    .max_tokens = 64, .max_length = 4, .max_matches = 1000};

TEST(AnswerStore, CountsOverAllAnswers) {
  AnswerStore store(kOptions);
  store.Add(Text{1, 2, 3});
  store.Add(Text{5, 1, 2, 4});
  store.Add(Text{1, 2, 3});
  EXPECT_THAT(store.SuccessorsOf(Text{1, 2}),
              UnorderedElementsAre(SuccessorCount{3, 2}, SuccessorCount{4, 1}));
  EXPECT_EQ(store.LongestMatch(Text{9, 5, 1}), 2);
  EXPECT_EQ(store.LongestMatch(Text{9}), 0);
}

TEST(AnswerStore, NothingGoesOnFromOneAnswerToTheNext) {
  AnswerStore store(kOptions);
  store.Add(Text{1, 2});
  store.Add(Text{3, 4});
  EXPECT_THAT(store.SuccessorsOf(Text{2}), IsEmpty());
  EXPECT_THAT(store.SuccessorsOf(Text{2, 3}), IsEmpty());
}

TEST(AnswerStore, TheOldestAnswersMakeRoom) {
  AnswerStore store(kOptions);
  store.Add(Text{7, 8, 9});
  for (TokenId i = 0; i < 40; ++i) store.Add(Text{100 + i, 2, 3});
  EXPECT_EQ(store.LongestMatch(Text{7, 8}), 0);
  EXPECT_EQ(store.LongestMatch(Text{139, 2}), 2);
  EXPECT_LE(std::ssize(store.Tokens()), kOptions.max_tokens);
  EXPECT_GE(std::ssize(store.Tokens()), kOptions.max_tokens / 2);
}

TEST(AnswerStore, OfAnAnswerThatIsTooLongTheEndIsKept) {
  AnswerStore store(kOptions);
  Text answer(1000);
  for (TokenId i = 0; i < 1000; ++i) answer[i] = i;
  store.Add(answer);
  EXPECT_EQ(store.LongestMatch(Text{997, 998}), 2);
  EXPECT_EQ(store.LongestMatch(Text{500, 501}), 0);
}

// Computes the definition, by scanning all that is kept.
std::map<TokenId, uint32_t> Reference(const Text& kept, const Text& ngram) {
  std::map<TokenId, uint32_t> counts;
  for (size_t at = ngram.size(); at < kept.size(); ++at) {
    if (kept[at] != AnswerStore::kBetweenAnswers &&
        std::equal(ngram.begin(), ngram.end(),
                   kept.begin() + static_cast<int64_t>(at - ngram.size()))) {
      ++counts[kept[at]];
    }
  }
  return counts;
}

TEST(AnswerStore, EqualsACountOfWhatIsKept) {
  std::mt19937_64 random(31);
  AnswerStore store(kOptions);
  for (int i = 0; i < 300; ++i) {
    store.Add(RandomTokens(random, random() % 12, 3));
    const Text kept = store.Tokens();
    const Text ngram = RandomTokens(
        random, static_cast<int64_t>(1 + random() % kOptions.max_length), 3);
    std::map<TokenId, uint32_t> counts;
    for (const SuccessorCount& entry : store.SuccessorsOf(ngram)) {
      counts[entry.token] = entry.count;
    }
    // An n-gram that is cut by the border of the halves is not counted.
    const auto expected = Reference(kept, ngram);
    EXPECT_EQ(counts, expected);
  }
}

TEST(AnswerStore, ATextOfAllAnswersMakesTheSameStore) {
  std::mt19937_64 random(32);
  AnswerStore store(kOptions);
  for (int i = 0; i < 9; ++i) store.Add(RandomTokens(random, 3, 9));
  AnswerStore other(kOptions);
  other.AddAll(store.Tokens());
  EXPECT_EQ(other.Tokens(), store.Tokens());
  other.AddAll(Text{4, 5});  // without an end
  EXPECT_EQ(other.LongestMatch(Text{4}), 1);
}

SavedAnswers Saved() {
  return {.vocab_size = 10,
          .tokenizer_fingerprint = 77,
          .tenants = {{.salt = "", .tokens = {1, 2, -1, 9, -1}},
                      {.salt = std::string("s\0t", 3), .tokens = {}}}};
}

TEST(AnswerStoreFile, IsReadAsItWasWritten) {
  const auto read = ParseAnswers(SerializeAnswers(Saved()));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, Saved());
}

TEST(AnswerStoreFile, DamageIsRefused) {
  const auto message = [](absl::string_view bytes) {
    return std::string(ParseAnswers(bytes).status().message());
  };
  const std::string bytes = SerializeAnswers(Saved());
  EXPECT_THAT(message(""), HasSubstr("another kind of file"));
  for (size_t size = 8; size < bytes.size(); ++size) {
    EXPECT_FALSE(ParseAnswers(bytes.substr(0, size)).ok()) << size;
  }
  std::string damaged = bytes;
  damaged[40] ^= 1;
  EXPECT_THAT(message(damaged), HasSubstr("checksum does not fit"));
  SavedAnswers outside = Saved();
  outside.tenants[0].tokens[1] = 10;
  EXPECT_THAT(message(SerializeAnswers(outside)),
              HasSubstr("token 10 outside the vocabulary of 10"));
}

}  // namespace
}  // namespace espalier::drafter::answer_store_test
