// What passes of the CUDA model give: rows of trees, features, answers.
#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "common/base/bf16.h"
#include "common/model/cuda/open_device.h"
#include "common/model/cuda/ring_reader.h"
#include "common/speculation/features.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/model/cuda/cuda_model_fixture.h"
#include "tests/testing/watched_device.h"

namespace espalier {
namespace {

TEST_P(CudaModelTest, TreeRowsHaveTheBitsOfDecoding) {
  const auto model = Load(), plain = Load(2);
  const CacheId cache = Prompted(*model, 130);
  const auto rows = model->Forward({AllRows(cache, tree_)});
  ASSERT_TRUE(rows.ok());
  for (int32_t row : {6, 8}) {
    const CacheId other = Prompted(*plain, 130);
    for (int32_t node : tree_.PathTo(row)) {
      EXPECT_EQ(Decode(*plain, other, tree_.tokens[node]), RowOf(**rows, node));
    }
    plain->Release(other);
  }
  // The kept rows are what would have been decoded.
  ASSERT_TRUE(model->Keep(cache, tree_.PathTo(8), {}).ok());
  const CacheId other = Prompted(*plain, 130);
  for (int32_t node : tree_.PathTo(8))
    Decode(*plain, other, tree_.tokens[node]);
  EXPECT_EQ(Decode(*model, cache, 77), Decode(*plain, other, 77));
}

TEST_P(CudaModelTest, SequencesOfAPassDoNotSeeEachOther) {
  const auto model = Load();
  const CacheId a = Prompted(*model, 20, 1), b = Prompted(*model, 67, 2);
  const auto together =
      model->Forward({AllRows(a, tree_), AllRows(b, {{9, 8}, {-1, 0}})});
  ASSERT_TRUE(together.ok());
  const auto alone = model->Forward({AllRows(b, {{9, 8}, {-1, 0}})});
  ASSERT_TRUE(alone.ok());
  for (int row = 0; row < 2; ++row) {
    EXPECT_EQ(RowOf(**together, 9 + row), RowOf(**alone, row));
  }
}

// What a model says of a prompt: the logits and features of all its rows, those
// of a tree beside each of its passes, and the logits of a token after it.
struct SaidOfPrompt {
  std::vector<Row> rows, beside;
  std::vector<uint16_t> features;
  Row next;
};

SaidOfPrompt Prompt(LanguageModel& model, absl::Span<const TokenId> prompt,
                    int64_t chunk, const SequenceRows& beside) {
  const std::vector<int32_t> taps = {0, 1, 2, 3};
  const CacheId cache = model.NewSequence();
  SaidOfPrompt said;
  for (size_t begin = 0; begin < prompt.size(); begin += chunk) {
    const auto tokens = prompt.subspan(begin, chunk);
    std::vector<int32_t> parents(tokens.size()), path(tokens.size());
    std::iota(parents.begin(), parents.end(), kPrefixParent);
    std::iota(path.begin(), path.end(), 0);
    const SequenceRows rows = {.cache = cache,
                               .tokens = tokens,
                               .parents = parents,
                               .num_logit_rows = std::ssize(tokens),
                               .taps = taps};
    const auto logits = model.Forward({rows, beside});
    EXPECT_TRUE(logits.ok()) << logits.status();
    if (!logits.ok()) return said;
    for (int64_t row = 0; row < (*logits)->num_rows(); ++row) {
      (row < std::ssize(tokens) ? said.rows : said.beside)
          .push_back(RowOf(**logits, row));
    }
    std::vector<uint16_t> kept(tokens.size() * taps.size() *
                               model.info().config.hidden_size);
    EXPECT_TRUE(model.Keep(cache, path, absl::MakeSpan(kept)).ok());
    said.features.insert(said.features.end(), kept.begin(), kept.end());
  }
  const auto after = model.Forward({AllRows(cache, {{77}, {-1}})});
  EXPECT_TRUE(after.ok()) << after.status();
  if (after.ok()) said.next = RowOf(**after, 0);
  return said;
}

// Passes of 512 and 256 rows are attended to as chains, those of 64 as trees.
TEST_P(CudaModelTest, APromptHasTheSameBitsInPassesOfAnyLength) {
  const std::string kind = std::get<0>(GetParam());
  if (kind == "llama" || (kind == "qwen3moe" && type() == ComputeDType::kFp8)) {
    GTEST_SKIP() << "as qwen3";
  }
  LengthenContext(1024);
  const std::vector<TokenId> prompt = RandomTokens(700);
  const auto said_of = [&](int64_t chunk) {
    const auto model = Load(static_cast<uint64_t>(chunk));
    const int64_t dim = model->info().config.head_dim;
    EXPECT_EQ(model->info().max_chain_rows, dim > 128 ? 128 : 512);
    chunk = std::min(chunk, model->info().max_chain_rows);
    return Prompt(*model, prompt, chunk,
                  AllRows(Prompted(*model, 67, 2), tree_));
  };
  const SaidOfPrompt wanted = said_of(64);
  EXPECT_EQ(wanted.rows.size(), prompt.size());
  for (int64_t chunk : {512, 256}) {
    const SaidOfPrompt said = said_of(chunk);
    EXPECT_TRUE(said.rows == wanted.rows) << chunk;
    EXPECT_TRUE(said.features == wanted.features) << chunk;
    EXPECT_EQ(said.next, wanted.next) << chunk;
    for (size_t i = 0; i < said.beside.size(); ++i) {
      EXPECT_EQ(said.beside[i], wanted.beside[i % tree_.tokens.size()]);
    }
  }
}

// A pass takes what any of its sequences wants.
TEST_P(CudaModelTest, FeaturesAreTheTapsThatASequenceWants) {
  const auto model = Load();
  const std::vector<std::vector<int32_t>> taps = {{0, 2}, {}, {1, 2, 3}};
  const std::vector<std::vector<int32_t>> paths = {
      tree_.PathTo(8), {0}, tree_.PathTo(6)};
  const int64_t hidden = model->info().config.hidden_size;
  const auto kept = [&](CacheId cache, int which) {
    std::vector<uint16_t> bits(paths[which].size() * taps[which].size() *
                               hidden);
    EXPECT_TRUE(model->Keep(cache, paths[which], absl::MakeSpan(bits)).ok());
    return bits;
  };
  const auto rows_of = [&](int which) {
    SequenceRows rows = AllRows(Prompted(*model, 20, which), tree_);
    rows.taps = taps[which];
    return rows;
  };
  const std::vector<SequenceRows> batch = {rows_of(0), rows_of(1), rows_of(2)};
  ASSERT_TRUE(model->Forward(batch).ok());
  for (int which : {2, 0}) {
    const std::vector<uint16_t> together = kept(batch[which].cache, which);
    const SequenceRows alone = rows_of(which);
    ASSERT_TRUE(model->Forward({alone}).ok());
    EXPECT_EQ(together, kept(alone.cache, which));
  }
  std::vector<uint16_t> room(hidden);
  EXPECT_FALSE(model->Keep(batch[1].cache, {0}, absl::MakeSpan(room)).ok());
  EXPECT_TRUE(model->Keep(batch[1].cache, {0}, {}).ok());
}

TEST_P(CudaModelTest, StoredFeaturesAreThoseThatAreReturned) {
  const std::string& name = std::get<2>(GetParam());
  auto ring = FeatureRing::Open(name);
  ASSERT_TRUE(ring.ok()) << ring.status();
  options_.feature_ring = *ring;
  const auto model = Load();
  EXPECT_EQ(model->info().feature_ring, (*ring)->info());
  const int64_t hidden = model->info().config.hidden_size;
  const std::vector<int32_t> taps = {0, 1, 3}, wanted = {0, 3};
  SequenceRows rows = AllRows(Prompted(*model, 20), tree_);
  rows.taps = taps;
  // Another sequence wants other taps in the same pass.
  SequenceRows other = AllRows(Prompted(*model, 9), tree_);
  const std::vector<int32_t> other_taps = {2};
  other.taps = other_taps;
  ASSERT_TRUE(model->Forward({other, rows}).ok());
  const std::vector<int32_t> path = tree_.PathTo(8);
  const auto segments = model->Store(rows.cache, path, wanted);
  ASSERT_TRUE(segments.ok()) << segments.status();
  std::vector<uint16_t> bits(path.size() * taps.size() * hidden);
  ASSERT_TRUE(model->Keep(rows.cache, path, absl::MakeSpan(bits)).ok());
  std::vector<uint16_t> columns;
  AppendTaps(bits, taps, wanted, hidden, columns);
  ASSERT_EQ(segments->size(), 1u);
  EXPECT_EQ((*segments)[0].first_position, 20);
  EXPECT_EQ((*segments)[0].num_rows, std::ssize(path));
  auto device = OpenComputeDevice(name);
  RingReader reader(**device);
  reader.UseOwn(*ring);
  ASSERT_TRUE(reader.Open((*ring)->info()).ok());
  auto read =
      cuda::DeviceArray<cuda::bf16_t>::Make(**device, std::ssize(columns));
  const int64_t row_bytes = std::ssize(wanted) * hidden * 2;
  EXPECT_EQ(*reader.Read(*segments, row_bytes, read->data()), 20);
  std::vector<uint16_t> stored(columns.size());
  read->Read(0, absl::MakeSpan(stored));
  ASSERT_TRUE((*device)->Wait((*device)->Record()).ok());
  EXPECT_EQ(stored, columns);
}

TEST_P(CudaModelTest, AnswersAreThoseOfTheRows) {
  const auto model = Load();
  const CacheId cache = Prompted(*model, 30);
  const int64_t rows = std::ssize(tree_.tokens);
  auto supports = std::make_shared<RowSupports>();
  for (int64_t row = 0; row < rows; ++row) {
    supports->Add(std::vector<TokenId>{1, 7, static_cast<TokenId>(20 + row)});
  }
  const RankRequest rank = {.top_k = 10};
  const GatherRequest gather = {
      .temperature = 0.8f, .seed = 4, .round = 30, .supports = supports};
  const auto all = model->Forward({AllRows(cache, tree_)});
  const auto ranked = model->Forward({AllRows(cache, tree_, rank)});
  const auto gathered = model->Forward({AllRows(cache, tree_, gather)});
  ASSERT_TRUE(all.ok() && ranked.ok() && gathered.ok());
  for (float temperature : {0.0f, 1.0f}) {
    const DrawRequest draw = {.temperature = temperature, .seed = 9};
    const auto sampled = model->Forward({AllRows(cache, tree_, draw)});
    ASSERT_TRUE(sampled.ok());
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t position = 30 + std::ssize(tree_.PathTo(row));
      EXPECT_EQ(*(*sampled)->Draw(row, draw, position),
                *DrawFrom((*all)->Row(row), draw, position));
    }
  }
  for (int64_t row = 0; row < rows; ++row) {
    const Ranking a = *(*ranked)->Rank(row, rank);
    const Ranking b = *RankFrom((*all)->Row(row), rank);
    EXPECT_EQ(a.top, b.top);
    EXPECT_NEAR(a.log_sum_exp, b.log_sum_exp, 1e-5);
    const GatheredRow c = *(*gathered)->Gather(row, gather, row);
    const GatheredRow d = *GatherFrom((*all)->Row(row), gather, row);
    EXPECT_EQ(c.log_weights, d.log_weights);
    EXPECT_NEAR(c.outside, d.outside, d.outside * 1e-5);
    EXPECT_EQ(*(*gathered)->SampleOutside(row, gather, row),
              *SampleOutsideFrom((*all)->Row(row), gather, row));
  }
}

TEST_P(CudaModelTest, RoomIsTakenAndGivenBack) {
  if (Load()->info().kv_groups.windowed > 0) {
    GTEST_SKIP() << "language_model_room_test has the room of windows";
  }
  options_.kv_pool_bytes = 4 * 64 * Load()->info().kv_bytes_per_token;
  const auto model = Load();
  EXPECT_EQ(model->kv_usage().total_tokens, 256);
  const CacheId a = Prompted(*model, 150);
  EXPECT_EQ(model->Length(a), 150);
  EXPECT_EQ(model->kv_usage().used_tokens, 192);
  const CacheId b = model->NewSequence();
  const std::vector<TokenId> tokens = RandomTokens(70);
  const auto failed = Prefill(*model, b, tokens, 70);
  EXPECT_EQ(failed.status().code(), absl::StatusCode::kResourceExhausted);
  const Row before = Decode(*model, a, 3);
  model->Truncate(a, 150);
  EXPECT_EQ(Decode(*model, a, 3), before);
  model->Truncate(a, 10);
  EXPECT_EQ(model->kv_usage().used_tokens, 64);
  EXPECT_TRUE(Prefill(*model, b, tokens, 70).ok());
  model->Release(a);
  model->Release(b);
  EXPECT_EQ(model->kv_usage().used_tokens, 0);
}

TEST_P(CudaModelTest, RowsOutliveTheModel) {
  auto model = Load();
  const CacheId cache = Prompted(*model, 5);
  const auto rows = model->Forward({AllRows(cache, {{1}, {-1}})});
  ASSERT_TRUE(rows.ok());
  const Row before = RowOf(**rows, 0);
  const auto again = model->Forward({AllRows(cache, {{1}, {-1}})});
  model.reset();
  EXPECT_EQ(RowOf(**again, 0), before);
}

}  // namespace
}  // namespace espalier
