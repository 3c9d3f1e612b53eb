#include "common/model/native/page_table.h"

#include <algorithm>
#include <map>
#include <memory>
#include <ostream>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "common/speculation/prefix_hash.h"
#include "gtest/gtest.h"

namespace espalier {
namespace {

constexpr int64_t kPageTokens = 4;
using Text = std::vector<TokenId>;

// Pages are numbers from 1 on. What a page holds of a position is the hash of
// the text up to there and of the group, so a page of another text or group is
// noticed.
class PageTableTest : public ::testing::Test {
 protected:
  struct Sequence {
    explicit Sequence(const PagePools<int>& pools, std::string salted = "")
        : table(pools), salt(std::move(salted)) {}
    PageTable<int> table;
    std::string salt;
    Text text;  // committed
  };

  void MakePool(int64_t pages, int64_t cached_pages) {
    PagePool<int>::Options options = {
        .page_tokens = kPageTokens,
        .total_tokens = pages * kPageTokens + 1,
        .max_cached_tokens = cached_pages * kPageTokens,
        .make = [this] { return ++num_made_; }};
    pool_ = std::make_unique<PagePool<int>>(options);
    options.total_tokens = 1 << 30;
    options.make = [] { return 0; };
    texts_ = std::make_unique<PagePool<int>>(options);
  }

  std::unique_ptr<Sequence> New(const std::string& salt = "") {
    return std::make_unique<Sequence>(
        PagePools<int>{
            .pages = pool_.get(), .groups = groups_, .texts = texts_.get()},
        salt);
  }

  static uint64_t Mark(const Sequence& sequence, const Text& text,
                       int64_t position, int64_t group) {
    uint64_t hash = PrefixHash(absl::MakeConstSpan(text).first(position + 1));
    return (hash ^ std::hash<std::string>()(sequence.salt)) + group;
  }

  bool IsWindowed(int64_t group) const { return group >= groups_.whole; }
  // The first position that rows after a sequence see.
  int64_t FirstSeen(const Sequence& sequence, int64_t group) const {
    if (!IsWindowed(group)) return 0;
    return std::max<int64_t>(0, sequence.table.length() - groups_.window + 1);
  }

  // Computes and commits `tokens`. False: there was no room.
  bool Append(Sequence& sequence, const Text& tokens) {
    Text text = sequence.text;
    text.insert(text.end(), tokens.begin(), tokens.end());
    const absl::Status room = sequence.table.Reserve(
        std::ssize(text),
        [this](int from, int to) { contents_[to] = contents_[from]; });
    if (!room.ok()) return false;
    for (int64_t group = 0; group < groups_.count(); ++group) {
      const std::vector<int>& pages = sequence.table.pages(group);
      for (int64_t i = std::ssize(sequence.text); i < std::ssize(text); ++i) {
        contents_[pages[i / kPageTokens]][i % kPageTokens] =
            Mark(sequence, text, i, group);
      }
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

  void ExpectIntact(const Sequence& sequence) const {
    ASSERT_EQ(sequence.table.length(), std::ssize(sequence.text));
    for (int64_t group = 0; group < groups_.count(); ++group) {
      const std::vector<int>& pages = sequence.table.pages(group);
      for (int64_t i = FirstSeen(sequence, group); i < sequence.table.length();
           ++i) {
        ASSERT_EQ(contents_.at(pages[i / kPageTokens]).at(i % kPageTokens),
                  Mark(sequence, sequence.text, i, group))
            << "position " << i << ", group " << group;
      }
    }
  }

  static Text Range(TokenId first, int64_t count) {
    Text text;
    for (int64_t i = 0; i < count; ++i) text.push_back(first + i);
    return text;
  }

  KvGroups groups_ = {.block_tokens = kPageTokens};
  int num_made_ = 0;
  std::map<int, std::map<int64_t, uint64_t>> contents_;  // by page and slot
  std::unique_ptr<PagePool<int>> pool_, texts_;
};

TEST_F(PageTableTest, TheSameTextTakesTheWholePagesThatWereOffered) {
  MakePool(10, 10);
  const auto first = New(), second = New();
  const Text text = Range(0, 11);
  ASSERT_TRUE(Append(*first, text));
  EXPECT_EQ(Share(*first, text), 0);
  EXPECT_EQ(New()->table.HeldPrefix(text, ""), 8);
  EXPECT_EQ(New()->table.HeldPrefix(text, "salt"), 0);
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
  EXPECT_EQ(New()->table.HeldPrefix(text, ""), 0);  // cached, held by none
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

// A layer that sees all, and two groups that see six positions.
class WindowedPageTableTest : public PageTableTest {
 protected:
  WindowedPageTableTest() {
    groups_.windowed = 2;
    groups_.window = 6;
  }
};

TEST_F(WindowedPageTableTest, PagesThatFellOutOfTheWindowAreGivenBack) {
  MakePool(100, 0);
  const auto sequence = New();
  for (TokenId token = 0; token < 41; ++token) {
    ASSERT_TRUE(Append(*sequence, {token}));
    ExpectIntact(*sequence);
    // A window of six touches at most three pages.
    EXPECT_LE(pool_->room().used_tokens(),
              (token / kPageTokens + 1 + 2 * 3) * kPageTokens);
  }
  EXPECT_EQ(num_made_, 11 + 2 * 3);
  EXPECT_EQ(sequence->table.own_tokens(), pool_->room().used_tokens());
}

TEST_F(WindowedPageTableTest, WhatFellOutOfAWindowStaysCachedForOthers) {
  MakePool(100, 100);
  const auto first = New();
  const Text text = Range(0, 40);
  for (TokenId token : text) {
    ASSERT_TRUE(Append(*first, {token}));
    Share(*first, first->text);
  }
  EXPECT_EQ(pool_->room().used_tokens(), 40 + 2 * 2 * kPageTokens);
  EXPECT_EQ(pool_->cached_tokens(), 2 * 8 * kPageTokens);
  const auto second = New();
  EXPECT_EQ(Share(*second, Range(0, 22)), 20);
  ExpectIntact(*second);
  EXPECT_EQ(second->table.shared_tokens(), 20);  // the first has other windows
  ASSERT_TRUE(Append(*second, {7, 7, 7}));
  ExpectIntact(*second);
  ExpectIntact(*first);
}

// A text of which only the last window is left is continued from there, and
// from nowhere else.
TEST_F(WindowedPageTableTest, ATextIsContinuedWhereItsWindowIsThere) {
  MakePool(10 + 2 * 3, 16);
  const Text text = Range(0, 40);
  {
    const auto first = New();
    for (TokenId token : text) {
      ASSERT_TRUE(Append(*first, {token}));
      Share(*first, first->text);
    }
  }
  EXPECT_EQ(Share(*New(), Range(0, 32)), 0);
  const auto second = New();
  EXPECT_EQ(second->table.HeldPrefix(text, ""), 0);
  EXPECT_EQ(Share(*second, text), 40);
  EXPECT_EQ(New()->table.HeldPrefix(text, ""), 40);
  ExpectIntact(*second);
}

TEST_F(WindowedPageTableTest, ACutBeforeTheWindowLeavesNothing) {
  MakePool(100, 0);
  const auto first = New();
  ASSERT_TRUE(Append(*first, Range(0, 20)));
  first->table.Truncate(18);  // sees page 3, as 20 positions do
  EXPECT_EQ(first->table.length(), 18);
  first->table.Truncate(12);
  EXPECT_EQ(first->table.length(), 0);
  EXPECT_EQ(pool_->room().used_tokens(), 0);
}

struct PropertyCase {
  uint64_t seed = 0;
  int64_t whole = 1;
  int64_t windowed = 0;
  int64_t window = 0;
};

void PrintTo(const PropertyCase& c, std::ostream* out) {
  *out << c.whole << " whole, " << c.windowed << " of " << c.window << ", seed "
       << c.seed;
}

std::vector<PropertyCase> PropertyCases() {
  std::vector<PropertyCase> cases;
  for (uint64_t seed = 0; seed < 12; ++seed) cases.push_back({seed});
  for (uint64_t seed = 0; seed < 6; ++seed) {
    cases.push_back({seed, 1, 1, 6});
    cases.push_back({seed, 2, 3, 9});
    cases.push_back({seed, 0, 1, 5});
    cases.push_back({seed, 0, 2, 4});
  }
  return cases;
}

// Random operations on sequences of few tokens, so that they share much,
// compared with what a page must hold and with a count of the pages.
class PageTableProperty : public PageTableTest,
                          public ::testing::WithParamInterface<PropertyCase> {
 protected:
  PageTableProperty() : random_(GetParam().seed) {
    groups_.whole = GetParam().whole;
    groups_.windowed = GetParam().windowed;
    groups_.window = GetParam().window;
    num_pages_ = 24 * groups_.count();
  }

  int64_t HoldersOf(int page) const {
    int64_t holders = 0;
    for (const auto& sequence : sequences_) {
      for (int64_t group = 0; group < groups_.count(); ++group) {
        const auto& pages = sequence->table.pages(group);
        holders += std::count(pages.begin(), pages.end(), page);
      }
    }
    return holders;
  }

  // Pages that the sequence alone holds: of blocks that rows after it see, or
  // of the others.
  int64_t CountOwn(const Sequence& sequence, bool seen) const {
    int64_t own = 0;
    for (int64_t group = 0; group < groups_.count(); ++group) {
      const auto& pages = sequence.table.pages(group);
      const int64_t first = FirstSeen(sequence, group) / kPageTokens;
      for (int64_t i = 0; i < std::ssize(pages); ++i) {
        if (pages[i] == 0 || (i >= first) != seen) continue;
        own += HoldersOf(pages[i]) == 1 ? 1 : 0;
      }
    }
    return own;
  }

  void ExpectCounts() {
    std::set<int> used;
    for (const auto& sequence : sequences_) {
      for (int64_t group = 0; group < groups_.count(); ++group) {
        const auto& pages = sequence->table.pages(group);
        used.insert(pages.begin(), pages.end());
      }
      ASSERT_EQ(sequence->table.own_tokens(),
                CountOwn(*sequence, /*seen=*/true) * kPageTokens);
      ASSERT_NO_FATAL_FAILURE(ExpectIntact(*sequence));
    }
    used.erase(0);
    ASSERT_EQ(pool_->room().used_tokens(), std::ssize(used) * kPageTokens);
    ASSERT_LE(pool_->room().used_tokens() + pool_->cached_tokens(),
              num_pages_ * kPageTokens);
    ASSERT_LE(num_made_, num_pages_);
  }

  Text RandomText(int64_t length) {
    Text text;
    for (int64_t i = 0; i < length; ++i) text.push_back(random_() % 2);
    return text;
  }

  // Reserve succeeds if and only if what is missing is free, and asks for no
  // more than the bound that sessions plan with.
  void AppendRandom(Sequence& sequence) {
    const Text tokens = RandomText(1 + random_() % 9);
    const int64_t positions = std::ssize(sequence.text) + std::ssize(tokens);
    int64_t needed = 0;
    for (int64_t group = 0; group < groups_.count(); ++group) {
      needed += groups_.BlocksFor(positions) -
                FirstSeen(sequence, group) / kPageTokens;
    }
    ASSERT_LE(needed * kPageTokens,
              groups_.RoomFor(positions, std::ssize(tokens)));
    const int64_t missing = std::max<int64_t>(
        0, needed * kPageTokens - sequence.table.own_tokens() -
               sequence.table.shared_tokens());
    const int64_t free =
        (num_pages_ + CountOwn(sequence, /*seen=*/false)) * kPageTokens -
        pool_->room().used_tokens();
    ASSERT_EQ(Append(sequence, tokens), missing <= free);
  }

  void Truncate(Sequence& sequence) {
    const int64_t length = random_() % (sequence.text.size() + 1);
    sequence.table.Truncate(length);
    const int64_t left = sequence.table.length();
    ASSERT_TRUE(left == length || (groups_.windowed > 0 && left == 0));
    sequence.text.resize(left);
  }

  void Step() {
    auto& sequence = sequences_[random_() % sequences_.size()];
    switch (random_() % 6) {
      case 0:
      case 1:
        AppendRandom(*sequence);
        break;
      case 2:
        Truncate(*sequence);
        break;
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

  int64_t num_pages_ = 0;
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<Sequence>> sequences_;
};

TEST_P(PageTableProperty, EverySequenceSeesItsOwnText) {
  MakePool(num_pages_, random_() % (num_pages_ + 1));
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
                         ::testing::ValuesIn(PropertyCases()));

}  // namespace
}  // namespace espalier
