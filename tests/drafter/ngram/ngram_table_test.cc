#include "drafter/ngram/ngram_table.h"

#include <random>
#include <string>

#include "drafter/ngram/ngram_table_builder.h"
#include "drafter/ngram/ngram_table_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/drafter/draft_testing.h"

namespace espalier::drafter {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

NgramTable Build(const NgramTableOptions& options,
                 const std::vector<std::vector<TokenId>>& documents) {
  auto builder = NgramTableBuilder::Create(options);
  EXPECT_TRUE(builder.ok()) << builder.status();
  for (const auto& document : documents) {
    EXPECT_TRUE(builder->Add(document).ok());
  }
  return builder->Build();
}

NgramTable RandomTable() {
  std::mt19937_64 random(6);
  return Build({.order = 3,
                .vocab_size = 6,
                .tokenizer_fingerprint = 0xfeedface12345678,
                .max_successors = 4},
               {RandomTokens(random, 300, 6), RandomTokens(random, 40, 6)});
}

TEST(NgramTableTest, CountsSuccessorsOfEveryContextLength) {
  const NgramTable table =
      Build({.order = 3, .vocab_size = 10}, {{1, 2, 3, 1, 2, 4, 1, 2, 3}});
  const auto after_2 = table.Find({2});
  ASSERT_TRUE(after_2);
  EXPECT_EQ(after_2->total, 3);
  EXPECT_EQ(after_2->distinct, 2);
  EXPECT_THAT(after_2->successors,
              ElementsAre(SuccessorCount{3, 2}, SuccessorCount{4, 1}));
  const auto after_4_1 = table.Find({4, 1});
  ASSERT_TRUE(after_4_1);
  EXPECT_THAT(after_4_1->successors, ElementsAre(SuccessorCount{2, 1}));
  EXPECT_EQ(table.Find({})->total, 9);
  EXPECT_FALSE(table.Find({9}));
  EXPECT_FALSE(table.Find({2, 1}));
}

TEST(NgramTableTest, ContextsDoNotReachOverDocuments) {
  const NgramTable table =
      Build({.order = 2, .vocab_size = 5}, {{0, 1}, {2, 3}});
  EXPECT_TRUE(table.Find({0}));
  EXPECT_FALSE(table.Find({1}));
}

TEST(NgramTableTest, PruningKeepsTotalsHonest) {
  const NgramTable table =
      Build({.order = 2, .vocab_size = 9, .max_successors = 2, .min_count = 2},
            {{1, 5, 1, 5, 1, 5, 1, 6, 1, 6, 1, 7, 1, 7, 1, 8}});
  const auto after_1 = table.Find({1});
  ASSERT_TRUE(after_1);
  EXPECT_THAT(after_1->successors,
              ElementsAre(SuccessorCount{5, 3}, SuccessorCount{6, 2}));
  EXPECT_EQ(after_1->total, 8);
  EXPECT_EQ(after_1->distinct, 4);
}

TEST(NgramTableTest, AnEmptyTextMakesAnEmptyTable) {
  const NgramTable table = Build({.order = 2, .vocab_size = 3}, {});
  EXPECT_FALSE(table.Find({}));
  EXPECT_TRUE(ParseNgramTable(SerializeNgramTable(table)).ok());
}

TEST(NgramTableBuilderTest, RefusesOptionsAndTokensOutOfRange) {
  for (const NgramTableOptions& options :
       {NgramTableOptions{.order = 0, .vocab_size = 3},
        NgramTableOptions{.order = 6, .vocab_size = 3},
        NgramTableOptions{.vocab_size = 0},
        NgramTableOptions{.vocab_size = 3, .max_successors = 0},
        NgramTableOptions{.vocab_size = 3, .min_count = 0}}) {
    EXPECT_EQ(NgramTableBuilder::Create(options).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  auto builder = NgramTableBuilder::Create({.vocab_size = 3});
  ASSERT_TRUE(builder.ok());
  for (TokenId bad : {-1, 3}) {
    const std::vector<TokenId> document = {0, bad};
    const absl::Status status = builder->Add(document);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("vocabulary of 3"));
  }
  EXPECT_FALSE(builder->Build().Find({}));
}

TEST(NgramTableFileTest, RoundTripsThroughBytesAndFile) {
  const NgramTable table = RandomTable();
  auto parsed = ParseNgramTable(SerializeNgramTable(table));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->content(), table.content());

  const std::string path = ::testing::TempDir() + "round_trip.ngram";
  ASSERT_TRUE(WriteNgramTable(table, path).ok());
  auto read = ReadNgramTable(path);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->content(), table.content());
}

TEST(NgramTableFileTest, BuildNgramTableWritesWhatTheBuilderBuilds) {
  std::mt19937_64 random(8);
  std::vector<std::vector<TokenId>> documents;
  for (int i = 0; i < 5; ++i) documents.push_back(RandomTokens(random, 50, 4));
  const NgramTableOptions options = {.order = 3, .vocab_size = 4};
  const std::string path = ::testing::TempDir() + "built.ngram";
  size_t next = 0;
  ASSERT_TRUE(BuildNgramTable(
                  options,
                  [&](std::vector<TokenId>& document) -> absl::StatusOr<bool> {
                    if (next == documents.size()) return false;
                    document = documents[next++];
                    return true;
                  },
                  path)
                  .ok());
  auto read = ReadNgramTable(path);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->content(), Build(options, documents).content());
  EXPECT_EQ(
      BuildNgramTable(
          options, [](auto&) { return absl::DataLossError("source"); }, path)
          .code(),
      absl::StatusCode::kDataLoss);
}

TEST(NgramTableFileTest, SaysWhatIsWrongWithAFile) {
  const std::string bytes = SerializeNgramTable(RandomTable());
  const auto message = [](absl::string_view text) {
    const absl::Status status = ParseNgramTable(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(message(""), HasSubstr("another kind of file"));
  EXPECT_THAT(message("GGUF....................."),
              HasSubstr("another kind of file"));
  EXPECT_THAT(message(bytes.substr(0, 20)), HasSubstr("truncated"));
  EXPECT_THAT(message(bytes.substr(0, bytes.size() - 5)),
              HasSubstr("truncated or damaged"));
  EXPECT_THAT(message(bytes + "x"), HasSubstr("checksum"));
  std::string newer = bytes;
  newer[8] = 2;
  EXPECT_THAT(message(newer), HasSubstr("format version 2, expected 1"));
  EXPECT_EQ(ReadNgramTable("/nonexistent/table").status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(ReadNgramTable(::testing::TempDir()).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(NgramTableFileTest, EveryTruncationAndEveryFlippedBitIsRefused) {
  const std::string bytes = SerializeNgramTable(RandomTable());
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(
        ParseNgramTable(absl::string_view(bytes).substr(0, size)).ok());
  }
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] ^= static_cast<char>(1 << i % 8);
    EXPECT_FALSE(ParseNgramTable(damaged).ok());
  }
}

std::string WithChecksum(std::string bytes) {
  bytes.resize(bytes.size() - 8);
  uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char byte : bytes) hash = (hash ^ byte) * 0x100000001b3;
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(hash >> 8 * i));
  return bytes;
}

// A forged checksum must not get a senseless table past the checks: what is
// accepted can be looked up without harm and written back unchanged.
TEST(NgramTableFileTest, ForgedFilesAreRefusedOrHarmless) {
  const std::string bytes = SerializeNgramTable(RandomTable());
  ASSERT_EQ(WithChecksum(bytes), bytes);
  std::mt19937_64 random(9);
  int accepted = 0;
  constexpr int kTrials = 4000;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::string forged = bytes;
    for (int flips = 1 + random() % 3; flips > 0; --flips) {
      forged[random() % (forged.size() - 8)] = static_cast<char>(random());
    }
    forged = WithChecksum(forged);
    auto table = ParseNgramTable(forged);
    if (!table.ok()) continue;
    ++accepted;
    EXPECT_EQ(SerializeNgramTable(*table), forged);
    for (TokenId token = 0; token < 6; ++token) {
      if (table->order() > 1) table->Find({token});
      if (table->order() > 2) table->Find({token, token});
    }
  }
  EXPECT_LT(accepted, kTrials / 2);
}

TEST(NgramTableTest, RefusesContentThatMakesNoSense) {
  using Content = NgramTable::Content;
  const Content good = RandomTable().content();
  const std::vector<void (*)(Content&)> mutations = {
      [](Content& c) { c.levels.clear(); },
      [](Content& c) { c.levels.resize(6); },
      [](Content& c) { c.vocab_size = 0; },
      [](Content& c) { c.vocab_size = 3; },
      [](Content& c) { c.levels[1].totals.pop_back(); },
      [](Content& c) { c.levels[1].contexts[0] = -1; },
      [](Content& c) {
        std::swap(c.levels[1].contexts[0], c.levels[1].contexts[1]);
      },
      [](Content& c) { c.levels[1].totals[0] = 0; },
      [](Content& c) { c.levels[1].totals[0] = 1; },
      [](Content& c) { c.levels[1].distinct[0] = 0; },
      [](Content& c) { c.levels[1].distinct[0] = 1000; },
      [](Content& c) { c.levels[1].ends[0] = 0; },
      [](Content& c) { c.levels[1].ends[1] = 1 << 20; },
      [](Content& c) { c.levels[1].ends.back() -= 1; },
      [](Content& c) { c.levels[1].successors[0].token = 6; },
      [](Content& c) { c.levels[1].successors[0].token = -1; },
      [](Content& c) { c.levels[1].successors[0].count = 0; },
      [](Content& c) { c.levels[1].successors[0].count = 1 << 20; },
      [](Content& c) {
        c.levels[1].successors[1].token = c.levels[1].successors[0].token;
      },
  };
  ASSERT_TRUE(NgramTable::Create(good).ok());
  for (size_t i = 0; i < mutations.size(); ++i) {
    Content content = good;
    mutations[i](content);
    EXPECT_EQ(NgramTable::Create(content).status().code(),
              absl::StatusCode::kInvalidArgument)
        << "mutation " << i;
  }
}

}  // namespace
}  // namespace espalier::drafter
