#include "drafter/ngram/suffix_index.h"

#include <algorithm>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/drafter/draft_testing.h"

namespace espalier::drafter::suffix_index_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Text = std::vector<TokenId>;
using ByLength = std::vector<std::vector<SuccessorCount>>;

// Computes the definition, by scanning the whole text.
ByLength Reference(const Text& text, const Text& context,
                   const SuffixIndex::Options& options, int64_t oldest) {
  ByLength by_length;
  const int64_t longest = std::min<int64_t>(
      options.max_length, static_cast<int64_t>(context.size()));
  for (int64_t n = 1; n <= longest; ++n) {
    std::vector<SuccessorCount> counts;
    int64_t matches = 0;
    for (int64_t at = static_cast<int64_t>(text.size()) - 1;
         at >= std::max(n, oldest) && matches < options.max_matches; --at) {
      if (!std::equal(context.end() - n, context.end(),
                      text.begin() + at - n)) {
        continue;
      }
      ++matches;
      auto seen = std::find_if(counts.begin(), counts.end(), [&](auto& entry) {
        return entry.token == text[at];
      });
      if (seen == counts.end()) seen = counts.insert(seen, {text[at], 0});
      ++seen->count;
    }
    if (counts.empty()) break;
    by_length.push_back(counts);
  }
  return by_length;
}

TEST(SuffixIndexTest, CountsWhatFollowedMostRecentFirst) {
  const Text text = {1, 2, 3, 1, 2, 4, 1, 2, 3, 1, 2};
  SuffixIndex index({.max_length = 3, .max_matches = 8, .window = 64});
  index.Extend(text);
  EXPECT_THAT(
      index.Successors(text, {1, 2}),
      ElementsAre(ElementsAre(SuccessorCount{3, 2}, SuccessorCount{4, 1}),
                  ElementsAre(SuccessorCount{3, 2}, SuccessorCount{4, 1})));
  EXPECT_THAT(index.Successors(text, {7}), IsEmpty());
  EXPECT_THAT(index.Successors(text, {}), IsEmpty());
}

TEST(SuffixIndexTest, EqualsTheReferenceOnRandomTexts) {
  std::mt19937_64 random(1);
  for (int trial = 0; trial < 200; ++trial) {
    const SuffixIndex::Options options = {
        .max_length = 1 + static_cast<int64_t>(random() % 6),
        .max_matches = 1 + static_cast<int64_t>(random() % 9),
        .window = 1024};
    const int64_t vocab = 1 + random() % 5;
    const Text text = RandomTokens(random, random() % 700, vocab);
    SuffixIndex index(options);
    for (size_t end = 0; end < text.size(); end += 1 + random() % 90) {
      const Text part(text.begin(), text.begin() + end);
      index.Extend(part);
      const Text context = RandomTokens(random, random() % 8, vocab);
      EXPECT_EQ(index.Successors(part, context),
                Reference(part, context, options, 0));
    }
  }
}

TEST(SuffixIndexTest, ForgetsWhatFallsOutOfTheWindow) {
  std::mt19937_64 random(2);
  const SuffixIndex::Options options = {
      .max_length = 3, .max_matches = 1000, .window = 64};
  const Text text = RandomTokens(random, 500, 3);
  SuffixIndex index(options);
  for (size_t end = 64; end <= text.size(); end += 1 + random() % 100) {
    const Text part(text.begin(), text.begin() + end);
    index.Extend(part);
    const Text context = RandomTokens(random, 3, 3);
    EXPECT_EQ(index.Successors(part, context),
              Reference(part, context, options, part.size() - 64));
  }
}

TEST(SuffixIndexTest, MemoryStaysWithinEightBytesPerLevelAndWindowToken) {
  SuffixIndex index({.max_length = 4, .max_matches = 8, .window = 1024});
  Text text;
  for (int i = 0; i < 20; ++i) {
    text.resize(text.size() + 777, i);
    index.Extend(text);
    EXPECT_LE(index.memory_bytes(), 8 * 4 * 1024);
  }
  EXPECT_EQ(index.memory_bytes(), 8 * 4 * 1024);
}

}  // namespace
}  // namespace espalier::drafter::suffix_index_test
