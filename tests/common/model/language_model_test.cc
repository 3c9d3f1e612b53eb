#include "common/model/language_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <ostream>
#include <random>
#include <set>

#include "common/base/available_memory.h"
#include "common/base/bf16.h"
#include "common/model/load_model.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/model/reference_model.h"
#include "tests/common/model/same_rows.h"
#include "tests/testing/tiny_model.h"

namespace espalier {
namespace {

using ::testing::HasSubstr;
using Rows = std::vector<std::vector<float>>;

struct Tree {
  std::vector<TokenId> tokens;
  std::vector<int32_t> parents;
};

std::vector<TokenId> RandomTokens(std::mt19937& random, int64_t count) {
  std::vector<TokenId> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back(random() % 256);
  return tokens;
}

// One root, as in a round of speculation, and then any shape.
Tree RandomTree(std::mt19937& random, int32_t rows) {
  Tree tree{.tokens = RandomTokens(random, rows), .parents = {kPrefixParent}};
  for (int32_t row = 1; row < rows; ++row) {
    tree.parents.push_back(static_cast<int32_t>(random() % row));
  }
  return tree;
}

std::vector<int32_t> PathTo(const Tree& tree, int32_t row) {
  std::vector<int32_t> path;
  for (; row != kPrefixParent; row = tree.parents[row]) path.push_back(row);
  std::reverse(path.begin(), path.end());
  return path;
}

SequenceRows AllRows(CacheId cache, const Tree& tree) {
  return {.cache = cache,
          .tokens = tree.tokens,
          .parents = tree.parents,
          .num_logit_rows = static_cast<int64_t>(tree.tokens.size())};
}

std::vector<int32_t> Chain(int64_t rows) {
  std::vector<int32_t> parents(rows);
  std::iota(parents.begin(), parents.end(), kPrefixParent);
  return parents;
}

Rows Copy(const LogitRows& logits) {
  Rows rows;
  for (int64_t row = 0; row < logits.num_rows(); ++row) {
    rows.emplace_back(logits.Row(row).begin(), logits.Row(row).end());
  }
  return rows;
}

// Every test runs on every architecture, on every implementation and, where
// that is ours, in every compute type.
struct Subject {
  const char* architecture;
  testing::TinyTensors (*write)(const std::string& folder, uint64_t seed);
  std::string backend;
  ComputeDType dtype = ComputeDType::kFloat32;
};

std::string NameOf(const Subject& subject) {
  std::string name = subject.architecture + ("_" + subject.backend);
  if (subject.dtype != ComputeDType::kFloat32) {
    name += std::string("_") + NameOf(subject.dtype);
  }
  return name;
}

void PrintTo(const Subject& subject, std::ostream* out) {
  *out << NameOf(subject);
}

std::vector<Subject> SubjectsIn(absl::Span<const ComputeDType> dtypes) {
  std::vector<Subject> subjects;
  for (const std::string& backend : ModelBackends()) {
    for (ComputeDType dtype : dtypes) {
      if (backend != "native" && dtype != ComputeDType::kFloat32) continue;
      subjects.push_back({"Llama", testing::WriteTinyLlama, backend, dtype});
      subjects.push_back({"Qwen3", testing::WriteTinyQwen3, backend, dtype});
      subjects.push_back({"Gpt2", testing::WriteTinyGpt2, backend, dtype});
    }
  }
  return subjects;
}

std::string SubjectName(const ::testing::TestParamInfo<Subject>& info) {
  return NameOf(info.param);
}

class LanguageModelTest : public ::testing::TestWithParam<Subject> {
 protected:
  void SetUp() override {
    folder_ =
        ::testing::TempDir() + "/language_model_test_" + NameOf(GetParam());
    tensors_ = GetParam().write(folder_, /*seed=*/1);
    model_ = Load({.folder = folder_, .threads = 1});
  }

  std::unique_ptr<LanguageModel> Load(ModelOptions options) {
    options.backend = GetParam().backend;
    if (options.compute_dtype == ComputeDType::kFloat32) {
      options.compute_dtype = GetParam().dtype;
    }
    auto model = LoadModel(options);
    EXPECT_TRUE(model.ok()) << model.status();
    return *std::move(model);
  }

  CacheId Started(LanguageModel& model, const std::vector<TokenId>& tokens,
                  int64_t chunk = 256) {
    const CacheId cache = model.NewSequence();
    EXPECT_TRUE(Prefill(model, cache, tokens, chunk).ok());
    return cache;
  }
  CacheId Started(const std::vector<TokenId>& tokens) {
    return Started(*model_, tokens);
  }

  Rows Forward(const std::vector<SequenceRows>& batch) {
    auto logits = model_->Forward(batch);
    EXPECT_TRUE(logits.ok()) << logits.status();
    return Copy(**logits);
  }

  static constexpr int32_t kAllTaps[] = {0, 1, 2, 3};  // of two layers

  // [path][taps * hidden] of the sequence's last pass, which it keeps.
  Rows KeepFeatures(CacheId cache, const std::vector<int32_t>& path,
                    int64_t taps = 4) {
    const size_t width = taps * model_->info().config.hidden_size;
    std::vector<uint16_t> bits(path.size() * width, 0xFFFF);
    EXPECT_TRUE(model_->Keep(cache, path, absl::MakeSpan(bits)).ok());
    Rows features;
    for (size_t i = 0; i < path.size(); ++i) {
      std::vector<float>& row = features.emplace_back(width);
      std::transform(&bits[i * width], &bits[i * width] + width, row.begin(),
                     Bf16ToFloat);
    }
    return features;
  }

  // Of a pass that leaves no trace.
  Rows Features(SequenceRows rows, const std::vector<int32_t>& path,
                absl::Span<const int32_t> taps = kAllTaps,
                std::vector<SequenceRows> company = {}) {
    rows.taps = taps;
    company.push_back(rows);
    Forward(company);
    const int64_t length = model_->Length(rows.cache);
    Rows features = KeepFeatures(rows.cache, path, std::ssize(taps));
    model_->Truncate(rows.cache, length);
    return features;
  }

  // Decodes `tokens` one by one; the features of the last.
  std::vector<float> DecodeFeatures(CacheId cache,
                                    const std::vector<TokenId>& tokens) {
    Rows rows;
    for (TokenId token : tokens) {
      const Tree one{.tokens = {token}, .parents = {kPrefixParent}};
      SequenceRows pass = AllRows(cache, one);
      pass.taps = kAllTaps;
      Forward({pass});
      rows = KeepFeatures(cache, {0});
    }
    return rows.at(0);
  }

  // Decodes `tokens` one by one; the logits of the last.
  std::vector<float> Decode(CacheId cache, const std::vector<TokenId>& tokens) {
    Rows rows;
    for (TokenId token : tokens) {
      const Tree one{.tokens = {token}, .parents = {kPrefixParent}};
      rows = Forward({AllRows(cache, one)});
      EXPECT_TRUE(model_->Keep(cache, {0}, {}).ok());
    }
    return rows.at(0);
  }

  // Bit for bit; for libtorch see same_rows.h.
  static bool Same(const std::vector<float>& a, const std::vector<float>& b) {
    return GetParam().backend == "native" ? a == b : testing::SameRows(a, b);
  }
  static bool Same(const Rows& a, const Rows& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](const auto& x, const auto& y) { return Same(x, y); });
  }

  std::string folder_;
  testing::TinyTensors tensors_;
  std::unique_ptr<LanguageModel> model_;
};

INSTANTIATE_TEST_SUITE_P(Subjects, LanguageModelTest,
                         ::testing::ValuesIn(SubjectsIn(kComputeDTypes)),
                         SubjectName);

// In float32 only.
class ExactLanguageModelTest : public LanguageModelTest {};

INSTANTIATE_TEST_SUITE_P(
    Subjects, ExactLanguageModelTest,
    ::testing::ValuesIn(SubjectsIn({ComputeDType::kFloat32})), SubjectName);

TEST_P(ExactLanguageModelTest, AgreesWithTheDefinitionInFloat64) {
  // Logits are near 10; a split operand of the native kernels has 16 bits.
  const double tolerance = GetParam().backend == "native" ? 5e-4 : 1e-4;
  std::mt19937 random(1);
  const std::vector<TokenId> tokens = RandomTokens(random, 40);
  const auto expected =
      testing::ReferenceLogits(model_->info().config, tensors_, tokens);
  Tree chain{.tokens = tokens, .parents = std::vector<int32_t>(40)};
  std::iota(chain.parents.begin(), chain.parents.end(), kPrefixParent);
  const Rows rows = Forward({AllRows(model_->NewSequence(), chain)});
  ASSERT_EQ(rows.size(), 40u);
  for (size_t row = 0; row < rows.size(); ++row) {
    for (size_t token = 0; token < rows[row].size(); ++token) {
      ASSERT_NEAR(rows[row][token], expected[row][token], tolerance)
          << "row " << row << ", token " << token;
    }
  }
}

TEST_P(ExactLanguageModelTest, FeaturesAgreeWithTheDefinitionInFloat64) {
  // As for the logits.
  const double tolerance = GetParam().backend == "native" ? 5e-4 : 1e-4;
  std::mt19937 random(11);
  const Tree chain{.tokens = RandomTokens(random, 40), .parents = Chain(40)};
  const ModelConfig& config = model_->info().config;
  const auto expected =
      testing::ReferenceStates(config, tensors_, chain.tokens);
  std::vector<int32_t> all(40);
  std::iota(all.begin(), all.end(), 0);
  const Rows rows = Features(AllRows(model_->NewSequence(), chain), all);
  ASSERT_EQ(rows.size(), 40u);
  for (size_t row = 0; row < rows.size(); ++row) {
    ASSERT_EQ(expected[row].size(), 4u);
    for (size_t i = 0; i < rows[row].size(); ++i) {
      const double value =
          expected[row][i / config.hidden_size][i % config.hidden_size];
      const double rounding = std::abs(value) / 256;  // bf16
      ASSERT_NEAR(rows[row][i], value, tolerance + rounding)
          << "row " << row << ", tap " << i / config.hidden_size;
    }
  }
}

// As for the logits: neither the tree nor other sequences change a bit.
TEST_P(LanguageModelTest, FeaturesOfTreeRowsAreWhatDecodingTheirPathsGives) {
  std::mt19937 random(12);
  const std::vector<TokenId> prompt = RandomTokens(random, 37);
  const Tree tree = RandomTree(random, 25), other = RandomTree(random, 9);
  const CacheId cache = Started(prompt);
  const CacheId beside = Started({5});
  for (int32_t row = 0; row < 25; row += 4) {
    const std::vector<int32_t> path = PathTo(tree, row);
    const Rows rows = Features(AllRows(cache, tree), path, kAllTaps,
                               {AllRows(beside, other)});
    std::vector<TokenId> tokens;
    for (int32_t node : path) tokens.push_back(tree.tokens[node]);
    EXPECT_TRUE(Same(rows.back(), DecodeFeatures(Started(prompt), tokens)))
        << "row " << row;
  }
}

TEST_P(LanguageModelTest, FeaturesAreTheTapsThatAreWanted) {
  const Tree tree{.tokens = {1, 2, 3}, .parents = {-1, 0, 0}};
  const CacheId cache = Started({10, 11});
  const int64_t hidden = model_->info().config.hidden_size;
  const Rows all = Features(AllRows(cache, tree), {0, 2});
  for (int32_t tap : kAllTaps) {
    SequenceRows rows = AllRows(cache, tree);
    rows.num_logit_rows = tap % 2;
    const Rows one = Features(rows, {0, 2}, {&tap, 1});
    for (size_t row = 0; row < 2; ++row) {
      EXPECT_EQ(one[row],
                std::vector<float>(all[row].begin() + tap * hidden,
                                   all[row].begin() + (tap + 1) * hidden));
    }
  }
}

TEST_P(LanguageModelTest, LogitsAreTheSameWithFeatures) {
  std::mt19937 random(13);
  const Tree tree = RandomTree(random, 12);
  const CacheId cache = Started({1, 2, 3});
  const Rows expected = Forward({AllRows(cache, tree)});
  SequenceRows rows = AllRows(cache, tree);
  rows.taps = kAllTaps;
  EXPECT_TRUE(Same(Forward({rows}), expected));
}

TEST_P(LanguageModelTest, FeaturesStayUntilTheSequenceKeepsItsRows) {
  const Tree tree{.tokens = {1, 2, 3}, .parents = {-1, 0, 0}};
  const CacheId cache = Started({10, 11}), other = Started({12});
  const Rows expected = Features(AllRows(cache, tree), {0, 2});
  SequenceRows rows = AllRows(cache, tree);
  rows.taps = kAllTaps;
  Forward({rows});
  rows.cache = other;
  rows.taps = absl::MakeConstSpan(kAllTaps).first(1);
  Forward({rows});
  EXPECT_EQ(KeepFeatures(cache, {0, 2}), expected);
  EXPECT_EQ(KeepFeatures(other, {0, 1}, /*taps=*/1).size(), 2u);
}

TEST_P(LanguageModelTest, KeepWritesFeaturesOfTheRightSizeOnly) {
  const Tree tree{.tokens = {1, 2, 3}, .parents = {-1, 0, 0}};
  const CacheId cache = Started({10, 11});
  const Rows expected = Features(AllRows(cache, tree), {0, 2});
  SequenceRows rows = AllRows(cache, tree);
  rows.taps = kAllTaps;
  Forward({rows});
  std::vector<uint16_t> room(2 * 4 * model_->info().config.hidden_size + 1);
  for (const size_t size : {room.size(), room.size() - 2}) {
    const absl::Status kept =
        model_->Keep(cache, {0, 2}, absl::MakeSpan(room).first(size));
    EXPECT_EQ(kept.code(), absl::StatusCode::kInvalidArgument) << kept;
    EXPECT_EQ(model_->Length(cache), 2);
  }
  EXPECT_EQ(KeepFeatures(cache, {0, 2}), expected);
  Forward({AllRows(cache, tree)});  // takes none
  EXPECT_FALSE(model_->Keep(cache, {0}, absl::MakeSpan(room)).ok());
  EXPECT_TRUE(model_->Keep(cache, {0}, {}).ok());
}

// The text of a tree must not depend on the tree: this is bit for bit.
TEST_P(LanguageModelTest, TreeRowsAreWhatDecodingTheirPathsGives) {
  std::mt19937 random(2);
  for (int32_t size : {1, 2, 3, 7, 12, 25, 64}) {
    const std::vector<TokenId> prompt = RandomTokens(random, 1 + random() % 90);
    const Tree tree = RandomTree(random, size);
    const CacheId cache = Started(prompt);
    const Rows rows = Forward({AllRows(cache, tree)});
    ASSERT_EQ(rows.size(), tree.tokens.size());
    for (int32_t row = 0; row < size; row += 1 + size / 8) {
      const CacheId alone = Started(prompt);
      std::vector<TokenId> path;
      for (int32_t node : PathTo(tree, row)) path.push_back(tree.tokens[node]);
      EXPECT_TRUE(Same(rows[row], Decode(alone, path)))
          << "row " << row << " of " << size;
      model_->Release(alone);
    }
    model_->Release(cache);
  }
}

TEST_P(LanguageModelTest, KeptPathEqualsAFreshPrefillOfItsTokens) {
  std::mt19937 random(3);
  std::vector<TokenId> tokens = RandomTokens(random, 20);
  const CacheId cache = Started(tokens);
  for (int round = 0; round < 6; ++round) {
    const Tree tree = RandomTree(random, 24);
    Forward({AllRows(cache, tree)});
    const std::vector<int32_t> path = PathTo(tree, 23 - round);
    ASSERT_TRUE(model_->Keep(cache, path, {}).ok());
    for (int32_t row : path) tokens.push_back(tree.tokens[row]);
    EXPECT_EQ(model_->Length(cache), static_cast<int64_t>(tokens.size()));
  }
  const CacheId fresh = Started(tokens);
  EXPECT_TRUE(Same(Decode(cache, {65, 66}), Decode(fresh, {65, 66})));
}

TEST_P(LanguageModelTest, PrefillInChunksEqualsWholePrefill) {
  std::mt19937 random(4);
  const std::vector<TokenId> tokens = RandomTokens(random, 150);
  const CacheId whole = Started(*model_, tokens, 256);
  const std::vector<float> expected = Decode(whole, {7});
  for (int64_t chunk : {1, 5, 16, 64, 149}) {
    const CacheId cache = Started(*model_, tokens, chunk);
    EXPECT_TRUE(Same(Decode(cache, {7}), expected)) << "chunks of " << chunk;
    model_->Release(cache);
  }
}

TEST_P(LanguageModelTest, SequencesPackedInOnePassGetWhatEachGetsAlone) {
  std::mt19937 random(5);
  std::vector<CacheId> caches;
  std::vector<Tree> trees;
  std::vector<SequenceRows> batch;
  Rows expected;
  for (int32_t i = 0; i < 5; ++i) {
    caches.push_back(Started(RandomTokens(random, 1 + 17 * i)));
    trees.push_back(RandomTree(random, 1 + 6 * i));
  }
  for (size_t i = 0; i < caches.size(); ++i) {
    const SequenceRows rows = AllRows(caches[i], trees[i]);
    for (auto& row : Forward({rows})) expected.push_back(row);
    batch.push_back(rows);
  }
  EXPECT_TRUE(Same(Forward(batch), expected));
}

TEST_P(LanguageModelTest, ReturnsTheLastRowsOfEverySequenceInOrder) {
  const Tree tree{.tokens = {1, 2, 3}, .parents = {-1, 0, 0}};
  const CacheId a = Started({10, 11}), b = Started({12});
  const Rows all = Forward({AllRows(a, tree), AllRows(b, tree)});
  SequenceRows some = AllRows(a, tree), none = AllRows(b, tree);
  some.num_logit_rows = 2;
  none.num_logit_rows = 0;
  EXPECT_TRUE(Same(Forward({none, some}), Rows{all[1], all[2]}));
  EXPECT_TRUE(Forward({none}).empty());
}

TEST_P(LanguageModelTest, RowsOfAnEarlierPassLeaveNoTrace) {
  std::mt19937 random(6);
  const Tree small = RandomTree(random, 3);
  const CacheId fresh = Started({1, 2, 3});
  const Rows expected = Forward({AllRows(fresh, small)});
  const CacheId used = Started({1, 2, 3});
  Forward({AllRows(used, RandomTree(random, 60))});
  EXPECT_TRUE(Same(Forward({AllRows(used, small)}), expected));
  ASSERT_TRUE(model_->Keep(used, {}, {}).ok());
  EXPECT_TRUE(Same(Forward({AllRows(used, small)}), expected));
}

TEST_P(LanguageModelTest, TruncateGoesBackToAnEarlierPosition) {
  const CacheId cache = Started({1, 2, 3, 4, 5});
  model_->Truncate(cache, 2);
  EXPECT_EQ(model_->Length(cache), 2);
  const CacheId fresh = Started({1, 2});
  EXPECT_TRUE(Same(Decode(cache, {9, 8}), Decode(fresh, {9, 8})));
}

TEST_P(LanguageModelTest, GreedyTextOfTheTinyModelVaries) {
  const CacheId cache = Started({72, 105});
  std::set<TokenId> seen;
  TokenId next = 33;
  for (int i = 0; i < 60; ++i) {
    const std::vector<float> row = Decode(cache, {next});
    next = std::max_element(row.begin(), row.end()) - row.begin();
    seen.insert(next);
  }
  EXPECT_GE(seen.size(), 8u);
}

TEST_P(LanguageModelTest, ReleaseReturnsTheRoomToThePool) {
  EXPECT_EQ(model_->kv_usage().used_tokens, 0);
  std::mt19937 random(7);
  std::vector<CacheId> caches;
  for (int i = 1; i < 5; ++i) {
    caches.push_back(Started(RandomTokens(random, 60 * i)));
    EXPECT_GE(model_->kv_usage().used_tokens, 60 * i);
  }
  for (CacheId cache : caches) model_->Release(cache);
  EXPECT_EQ(model_->kv_usage().used_tokens, 0);
}

TEST_P(LanguageModelTest, FullPoolIsResourceExhaustedAndRecovers) {
  const int64_t token_bytes = model_->info().kv_bytes_per_token;
  auto model = Load(
      {.folder = folder_, .threads = 1, .kv_pool_bytes = 130 * token_bytes});
  EXPECT_EQ(model->kv_usage().total_tokens, 128);  // whole blocks
  const CacheId first = Started(*model, std::vector<TokenId>(64, 1));
  const CacheId second = model->NewSequence();
  const std::vector<TokenId> tokens(70, 2);
  const auto full = Prefill(*model, second, tokens, 256);
  EXPECT_EQ(full.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(full.status().message(), HasSubstr("128"));
  EXPECT_EQ(model->Length(second), 0);
  model->Release(first);
  EXPECT_TRUE(Prefill(*model, second, tokens, 256).ok());
}

TEST_P(LanguageModelTest, TheContextIsNoLongerThanThePool) {
  const int64_t token_bytes = model_->info().kv_bytes_per_token;
  auto model = Load(
      {.folder = folder_, .threads = 1, .kv_pool_bytes = 80 * token_bytes});
  EXPECT_EQ(model->info().max_context, 64);
  EXPECT_LE(model->info().max_rows, 64);
  Started(*model, std::vector<TokenId>(64, 1));
  EXPECT_EQ(model->kv_usage().used_tokens, 64);
}

TEST_P(LanguageModelTest, ByDefaultThePoolHoldsAShareOfTheMemory) {
  const int64_t pool =
      model_->kv_usage().total_tokens * model_->info().kv_bytes_per_token;
  EXPECT_GT(pool, AvailableMemory() / 10);
  EXPECT_LT(pool, AvailableMemory());
}

// The numbers by which the engine divides the pool.
TEST_P(LanguageModelTest, APassFindsRoomWhereTheMissingIsFree) {
  const int64_t token_bytes = model_->info().kv_bytes_per_token;
  auto model = Load(
      {.folder = folder_, .threads = 1, .kv_pool_bytes = 320 * token_bytes});
  const ModelInfo& info = model->info();
  const int64_t total = model->kv_usage().total_tokens;
  std::vector<CacheId> caches = {Started(*model, std::vector<TokenId>(64, 1)),
                                 Started(*model, std::vector<TokenId>(60, 2)),
                                 model->NewSequence()};
  EXPECT_EQ(model->HeldRoom(caches[0]), info.RoomFor(64));
  EXPECT_EQ(model->HeldRoom(caches[2]), 0);
  for (int64_t rows = 1;; rows += 3) {
    Tree tree;
    for (int64_t i = 0; i < rows; ++i) {
      tree.tokens.push_back(3);
      tree.parents.push_back(kPrefixParent);
    }
    std::vector<SequenceRows> batch;
    int64_t missing = 0;
    for (CacheId cache : caches) {
      batch.push_back(AllRows(cache, tree));
      missing += std::max<int64_t>(
          info.RoomFor(model->Length(cache) + rows) - model->HeldRoom(cache),
          0);
    }
    const bool fits = missing <= total - model->kv_usage().used_tokens;
    ASSERT_EQ(model->Forward(batch).ok(), fits) << rows << " rows";
    if (!fits) break;
    for (CacheId cache : caches) ASSERT_TRUE(model->Keep(cache, {}, {}).ok());
  }
  int64_t held = 0;
  for (CacheId cache : caches) held += model->HeldRoom(cache);
  EXPECT_EQ(held, model->kv_usage().used_tokens);
}

TEST_P(LanguageModelTest, ContextLimitIsOutOfRange) {
  auto model = Load({.folder = folder_, .threads = 1, .max_context = 20});
  EXPECT_EQ(model->info().max_context, 20);
  const CacheId cache = Started(*model, std::vector<TokenId>(20, 1));
  const auto over = Prefill(*model, cache, {1}, 1);
  EXPECT_EQ(over.status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(over.status().message(), HasSubstr("20 tokens"));
}

TEST_P(LanguageModelTest, MalformedRowsAreInvalidArgument) {
  const CacheId cache = Started({1});
  auto code = [&](const SequenceRows& rows) {
    return model_->Forward({&rows, 1}).status().code();
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(code(AllRows(cache, {{}, {}})), kInvalid);
  EXPECT_EQ(code(AllRows(cache, {{1, 2}, {-1}})), kInvalid);
  EXPECT_EQ(code(AllRows(cache, {{-1}, {-1}})), kInvalid);
  EXPECT_EQ(code(AllRows(cache, {{258}, {-1}})), kInvalid);
  EXPECT_EQ(code(AllRows(cache, {{1}, {0}})), kInvalid);
  EXPECT_EQ(code(AllRows(cache, {{1, 2}, {1, -1}})), kInvalid);
  EXPECT_EQ(code(AllRows(cache, {{1}, {-2}})), kInvalid);
  const Tree tree{.tokens = {1}, .parents = {-1}};
  SequenceRows rows = AllRows(cache, tree);
  rows.num_logit_rows = 2;
  EXPECT_EQ(code(rows), kInvalid);
  rows = AllRows(cache, tree);
  for (const std::vector<int32_t>& taps :
       {std::vector<int32_t>{-1, 0}, {1, 1}, {2, 1}, {3, 4}}) {
    rows.taps = taps;
    EXPECT_EQ(code(rows), kInvalid);
  }
  const std::vector<SequenceRows> twice(2, AllRows(cache, tree));
  EXPECT_EQ(model_->Forward(twice).status().code(), kInvalid);
  EXPECT_EQ(model_->Forward({}).status().code(), kInvalid);
  EXPECT_EQ(code(AllRows(cache, tree)), absl::StatusCode::kOk);
}

TEST_P(LanguageModelTest, KeepTakesOnlyAPathOfTheLastPass) {
  const CacheId cache = Started({1});
  EXPECT_FALSE(model_->Keep(cache, {0}, {}).ok());  // no uncommitted rows
  const Tree tree{.tokens = {1, 2, 3}, .parents = {-1, 0, 0}};
  Forward({AllRows(cache, tree)});
  EXPECT_FALSE(model_->Keep(cache, {1}, {}).ok());        // skips row 0
  EXPECT_FALSE(model_->Keep(cache, {0, 1, 2}, {}).ok());  // 2 is a sibling
  EXPECT_FALSE(model_->Keep(cache, {0, 3}, {}).ok());
  EXPECT_FALSE(model_->Keep(cache, {-1}, {}).ok());
  EXPECT_EQ(model_->Length(cache), 1);
  EXPECT_TRUE(model_->Keep(cache, {0, 2}, {}).ok());
  EXPECT_EQ(model_->Length(cache), 3);
  EXPECT_FALSE(model_->Keep(cache, {0}, {}).ok());  // already kept
}

TEST_P(ExactLanguageModelTest, RoundedTypesStayCloseToFloat32) {
  struct Bound {
    ComputeDType dtype;
    double error;
  };
  std::mt19937 random(8);
  const Tree tree = RandomTree(random, 20);
  const std::vector<TokenId> prompt = RandomTokens(random, 30);
  const Rows expected = Forward({AllRows(Started(prompt), tree)});
  for (const auto& [dtype, bound] :
       {Bound{ComputeDType::kBFloat16, 0.05}, Bound{ComputeDType::kInt8, 0.1},
        Bound{ComputeDType::kInt4, 0.5}}) {
    if (GetParam().backend != "native" && dtype != ComputeDType::kBFloat16) {
      continue;
    }
    auto rounded =
        Load({.folder = folder_, .compute_dtype = dtype, .threads = 1});
    const SequenceRows rows = AllRows(Started(*rounded, prompt), tree);
    auto logits = rounded->Forward({&rows, 1});
    ASSERT_TRUE(logits.ok()) << logits.status();
    const Rows got = Copy(**logits);
    for (size_t row = 0; row < got.size(); ++row) {
      double error = 0, size = 0;
      for (size_t i = 0; i < got[row].size(); ++i) {
        error += std::pow(got[row][i] - expected[row][i], 2);
        size += std::pow(expected[row][i], 2);
      }
      EXPECT_LT(std::sqrt(error / size), bound)
          << NameOf(dtype) << ", row " << row;
    }
  }
}

}  // namespace
}  // namespace espalier
