#include "common/model/native/page_table.h"

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "common/spec/prefix_hash.h"
#include "gtest/gtest.h"

namespace espalier {
namespace {

constexpr int64_t kPageTokens = 4;
using Text = std::vector<TokenId>;

// Pages are numbers. What a page holds of a position is the hash of the text up
// to there, so a page of another text is noticed.
class PageTableTest : public ::testing::Test {
 protected:
  struct Sequence {
    explicit Sequence(PagePool<int>* pool, std::string salted = "")
        : table(pool), salt(std::move(salted)) {}
    PageTable<int> table;
    std::string salt;
    Text text;  // committed
  };

  void MakePool(int64_t pages, int64_t cached_pages) {
    pool_ = std::make_unique<PagePool<int>>(
        PagePool<int>::Options{.page_tokens = kPageTokens,
                               .total_tokens = pages * kPageTokens + 1,
                               .max_cached_tokens = cached_pages * kPageTokens,
                               .make = [this] { return num_made_++; }});
  }

  std::unique_ptr<Sequence> New(const std::string& salt = "") {
    return std::make_unique<Sequence>(pool_.get(), salt);
  }

  static uint64_t Mark(const Sequence& sequence, const Text& text,
                       int64_t position) {
    uint64_t hash = PrefixHash(absl::MakeConstSpan(text).first(position + 1));
    return hash ^ std::hash<std::string>()(sequence.salt);
  }

  // Computes and commits `tokens`. False: there was no room.
  bool Append(Sequence& sequence, const Text& tokens) {
    Text text = sequence.text;
    text.insert(text.end(), tokens.begin(), tokens.end());
    const absl::Status room = sequence.table.Reserve(
        std::ssize(text),
        [this](int from, int to) { contents_[to] = contents_[from]; });
    if (!room.ok()) return false;
    for (int64_t i = std::ssize(sequence.text); i < std::ssize(text); ++i) {
      contents_[sequence.table.pages()[i / kPageTokens]][i % kPageTokens] =
          Mark(sequence, text, i);
    }
    sequence.table.Advance(std::ssize(tokens));
    sequence.text = std::move(text);
    return true;
  }

  int64_t Share(Sequence& sequence, const Text& text) {
    const int64_t gained = sequence.table.Share(text, sequence.salt);
    sequence.text.assign(text.begin(), text.begin() + sequence.table.length());
    return gained;
  }

  void ExpectIntact(const Sequence& sequence) {
    ASSERT_EQ(sequence.table.length(), std::ssize(sequence.text));
    for (int64_t i = 0; i < sequence.table.length(); ++i) {
      ASSERT_EQ(
          contents_[sequence.table.pages()[i / kPageTokens]][i % kPageTokens],
          Mark(sequence, sequence.text, i))
          << "position " << i;
    }
  }

  static Text Range(TokenId first, int64_t count) {
    Text text;
    for (int64_t i = 0; i < count; ++i) text.push_back(first + i);
    return text;
  }

  int num_made_ = 0;
  std::map<int, std::map<int64_t, uint64_t>> contents_;  // by page and slot
  std::unique_ptr<PagePool<int>> pool_;
};

TEST_F(PageTableTest, TheSameTextTakesTheWholePagesThatWereOffered) {
  MakePool(10, 10);
  const auto first = New(), second = New();
  const Text text = Range(0, 11);
  ASSERT_TRUE(Append(*first, text));
  EXPECT_EQ(Share(*first, text), 0);
  EXPECT_EQ(pool_->HeldTokens(text, ""), 8);
  EXPECT_EQ(pool_->HeldTokens(text, "salt"), 0);
  EXPECT_EQ(Share(*second, text), 8);
  ExpectIntact(*second);
  EXPECT_EQ(pool_->room().used_tokens(), 12);
  EXPECT_EQ(second->table.own_tokens(), 0);
  EXPECT_EQ(second->table.shared_tokens(), 8);
  EXPECT_EQ(first->table.own_tokens(), 4);
  ASSERT_TRUE(Append(*second, {100, 101}));
  ExpectIntact(*first);
  ExpectIntact(*second);
}

TEST_F(PageTableTest, NoPageOfAnotherTextOrSaltIsTaken) {
  MakePool(10, 10);
  const auto first = New();
  ASSERT_TRUE(Append(*first, Range(0, 12)));
  Share(*first, Range(0, 12));
  Text differs = Range(0, 12);
  differs[5] = 50;
  EXPECT_EQ(Share(*New(), differs), 4);
  EXPECT_EQ(Share(*New(), Range(1, 12)), 0);
  EXPECT_EQ(Share(*New("salt"), Range(0, 12)), 0);
}

TEST_F(PageTableTest, WhatEndedStaysCachedUntilItsRoomIsNeeded) {
  MakePool(4, 4);
  const Text text = Range(0, 8);
  {
    const auto first = New();
    ASSERT_TRUE(Append(*first, text));
    Share(*first, text);
  }
  EXPECT_EQ(pool_->HeldTokens(text, ""), 0);  // cached, held by none
  EXPECT_EQ(pool_->room().used_tokens(), 0);
  EXPECT_EQ(pool_->cached_tokens(), 8);
  const auto second = New();
  ASSERT_TRUE(Append(*second, Range(100, 12)));  // evicts the last page
  EXPECT_EQ(pool_->cached_tokens(), 4);
  EXPECT_EQ(pool_->evicted_tokens(), 4);
  const auto third = New();
  EXPECT_EQ(Share(*third, text), 4);
  ExpectIntact(*third);
  EXPECT_EQ(num_made_, 4);
}

TEST_F(PageTableTest, NoMoreIsCachedThanAllowed) {
  MakePool(10, 2);
  const Text text = Range(0, 16);
  {
    const auto first = New();
    ASSERT_TRUE(Append(*first, text));
    Share(*first, text);
  }
  EXPECT_EQ(pool_->cached_tokens(), 8);
  EXPECT_EQ(Share(*New(), text), 8);  // the beginning has stayed
}

TEST_F(PageTableTest, EqualTextsThatWereComputedTwiceBecomeOne) {
  MakePool(10, 10);
  const auto first = New(), second = New();
  ASSERT_TRUE(Append(*first, Range(0, 8)));
  ASSERT_TRUE(Append(*second, Range(0, 8)));
  Share(*first, first->text);
  EXPECT_EQ(pool_->room().used_tokens(), 16);
  EXPECT_EQ(Share(*second, second->text), 0);
  EXPECT_EQ(pool_->room().used_tokens(), 8);
  EXPECT_EQ(first->table.pages(), second->table.pages());
}

TEST_F(PageTableTest, ASharedPageIsCopiedBeforeItIsWritten) {
  MakePool(10, 10);
  const auto first = New(), second = New();
  ASSERT_TRUE(Append(*first, Range(0, 8)));
  Share(*first, first->text);
  Share(*second, first->text);
  second->table.Truncate(6);
  second->text.resize(6);
  EXPECT_EQ(second->table.shared_tokens(), 4);
  ASSERT_TRUE(Append(*second, {60}));
  ExpectIntact(*first);
  ExpectIntact(*second);
  EXPECT_EQ(second->table.own_tokens(), 4);
  EXPECT_EQ(first->table.own_tokens(), 4);
}

TEST_F(PageTableTest, TheOnlyHolderOfAPageWritesItWithoutACopy) {
  MakePool(2, 2);
  const auto first = New();
  ASSERT_TRUE(Append(*first, Range(0, 8)));
  Share(*first, first->text);
  first->table.Truncate(6);
  first->text.resize(6);
  ASSERT_TRUE(Append(*first, {60, 61}));  // the pool is full
  ExpectIntact(*first);
  EXPECT_EQ(Share(*New(), Range(0, 8)), 4);
}

TEST_F(PageTableTest, ACutPageIsRegainedByItsOwnTextOnly) {
  MakePool(10, 10);
  const auto first = New();
  const Text text = Range(0, 12);
  ASSERT_TRUE(Append(*first, text));
  Share(*first, text);
  for (const bool same : {false, true}) {
    Text wanted = text;
    if (!same) wanted[7] = 70;
    first->table.Truncate(6);
    first->text.resize(6);
    EXPECT_EQ(Share(*first, wanted), same ? 6 : 0);
    ExpectIntact(*first);
  }
}

// Random operations on sequences of few tokens, so that they share much,
// compared with what a page must hold and with a count of the pages.
class PageTableProperty : public PageTableTest,
                          public ::testing::WithParamInterface<uint64_t> {
 protected:
  static constexpr int64_t kPages = 24;

  int64_t HoldersOf(int page) const {
    int64_t holders = 0;
    for (const auto& sequence : sequences_) {
      const auto& pages = sequence->table.pages();
      holders += std::count(pages.begin(), pages.end(), page);
    }
    return holders;
  }

  void ExpectCounts() {
    std::set<int> used;
    for (const auto& sequence : sequences_) {
      const auto& pages = sequence->table.pages();
      used.insert(pages.begin(), pages.end());
      const int64_t own =
          std::count_if(pages.begin(), pages.end(),
                        [this](int page) { return HoldersOf(page) == 1; });
      ASSERT_EQ(sequence->table.own_tokens(), own * kPageTokens);
      ASSERT_NO_FATAL_FAILURE(ExpectIntact(*sequence));
    }
    ASSERT_EQ(pool_->room().used_tokens(), std::ssize(used) * kPageTokens);
    ASSERT_LE(pool_->room().used_tokens() + pool_->cached_tokens(),
              kPages * kPageTokens);
    ASSERT_LE(num_made_, kPages);
  }

  Text RandomText(int64_t length) {
    Text text;
    for (int64_t i = 0; i < length; ++i) text.push_back(random_() % 2);
    return text;
  }

  // Reserve succeeds if and only if what is missing is free.
  void AppendRandom(Sequence& sequence) {
    const Text tokens = RandomText(1 + random_() % 9);
    const int64_t pages =
        (std::ssize(sequence.text) + std::ssize(tokens) + kPageTokens - 1) /
        kPageTokens;
    const int64_t missing =
        std::max<int64_t>(0, pages * kPageTokens - sequence.table.own_tokens() -
                                 sequence.table.shared_tokens());
    const int64_t free = kPages * kPageTokens - pool_->room().used_tokens();
    ASSERT_EQ(Append(sequence, tokens), missing <= free);
  }

  void Step() {
    auto& sequence = sequences_[random_() % sequences_.size()];
    switch (random_() % 6) {
      case 0:
      case 1:
        AppendRandom(*sequence);
        break;
      case 2: {
        const int64_t length = random_() % (sequence->text.size() + 1);
        sequence->table.Truncate(length);
        sequence->text.resize(length);
        break;
      }
      case 3: {
        const Text text = sequences_[random_() % sequences_.size()]->text;
        sequence = New(random_() % 4 == 0 ? "salt" : "");
        Share(*sequence, text);
        break;
      }
      default: {
        Text text = sequence->text;
        const Text more = RandomText(random_() % 12);
        text.insert(text.end(), more.begin(), more.end());
        Share(*sequence, text);
      }
    }
  }

  std::mt19937_64 random_{GetParam()};
  std::vector<std::unique_ptr<Sequence>> sequences_;
};

TEST_P(PageTableProperty, EverySequenceSeesItsOwnText) {
  MakePool(kPages, random_() % (kPages + 1));
  for (int i = 0; i < 5; ++i) sequences_.push_back(New());
  int64_t shared = 0;
  for (int step = 0; step < 3000; ++step) {
    ASSERT_NO_FATAL_FAILURE(Step());
    ASSERT_NO_FATAL_FAILURE(ExpectCounts()) << "step " << step;
    for (const auto& sequence : sequences_) {
      shared += sequence->table.shared_tokens();
    }
  }
  EXPECT_GT(shared, 1000);  // the test shares
  sequences_.clear();
  EXPECT_EQ(pool_->room().used_tokens(), 0);
}

INSTANTIATE_TEST_SUITE_P(Seeds, PageTableProperty,
                         ::testing::Range<uint64_t>(0, 12));

}  // namespace
}  // namespace espalier
