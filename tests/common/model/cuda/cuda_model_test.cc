#include "common/model/cuda/cuda_model.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/bf16.h"
#include "common/base/e4m3.h"
#include "common/cuda/cuda_device.h"
#include "common/cuda/emulated_device.h"
#include "common/cuda/layout.h"
#include "common/model/cuda/open_device.h"
#include "common/model/cuda/ring_reader.h"
#include "common/model/native/native_model.h"
#include "common/spec/features.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/e4m3_value.h"
#include "tests/testing/tiny_model.h"
#include "tests/testing/watched_device.h"

namespace espalier {
namespace {

using ::testing::HasSubstr;
using Row = std::vector<float>;

constexpr int64_t kVocab = testing::kTinyVocab;

struct Tree {
  std::vector<TokenId> tokens;
  std::vector<int32_t> parents;

  std::vector<int32_t> PathTo(int32_t row) const {
    std::vector<int32_t> path;
    for (; row >= 0; row = parents[row]) path.insert(path.begin(), row);
    return path;
  }
};

SequenceRows AllRows(CacheId cache, const Tree& tree, LogitUse use = AnyUse{}) {
  return {.cache = cache,
          .tokens = tree.tokens,
          .parents = tree.parents,
          .num_logit_rows = static_cast<int64_t>(tree.tokens.size()),
          .use = std::move(use)};
}

Row RowOf(const LogitRows& rows, int64_t row) {
  const absl::Span<const float> values = rows.Row(row);
  return {values.begin(), values.end()};
}

// The parameter: the kind of model, its compute type, and the device.
class CudaModelTest : public ::testing::TestWithParam<
                          std::tuple<std::string, ComputeDType, std::string>> {
 protected:
  void SetUp() override {
    const auto& [kind, type, device] = GetParam();
    if (device == "cuda") {
      auto opened = cuda::OpenCudaDevice(0);
      if (!opened.ok()) {
        GTEST_SKIP() << "no CUDA device to test: " << opened.status().message();
      }
      cuda_ = *std::move(opened);
    }
    options_.folder = ::testing::TempDir() + "/cuda_model";
    options_.kv_pool_bytes = 8 << 20;
    const auto write =
        kind == "qwen3" ? testing::WriteWideQwen3 : testing::WriteWideLlama;
    tensors_ = write(options_.folder, /*seed=*/1);
  }

  // Changes the weights of the layers' products to such that e4m3 holds exactly
  // with one power of two for all.
  void RoundWeights() {
    for (auto& [name, tensor] : tensors_) {
      if (!absl::StrContains(name, "_proj.weight")) continue;
      const int64_t inputs = tensor.shape[1];
      for (size_t row = 0; row < tensor.values.size(); row += inputs) {
        const auto values = absl::MakeSpan(tensor.values).subspan(row, inputs);
        constexpr float kScale = 0x1p-11f;
        for (float& x : values) {
          x = static_cast<float>(E4m3Value(FloatToE4m3(x / kScale)) * kScale);
        }
        values[0] = kLargestE4m3 * kScale;
      }
    }
    testing::WriteSafetensors(options_.folder + "/model.safetensors", tensors_);
  }

  std::shared_ptr<cuda::ComputeDevice> Device(uint64_t seed = 1) {
    if (cuda_ != nullptr) return cuda_;
    return std::make_shared<cuda::EmulatedDevice>(
        cuda::EmulatedDevice::Options{.seed = seed});
  }
  std::unique_ptr<LanguageModel> Load(uint64_t seed = 1) {
    return LoadOn(Device(seed));
  }
  std::unique_ptr<LanguageModel> LoadOn(
      std::shared_ptr<cuda::ComputeDevice> device,
      ComputeDType of_type = type()) {
    ModelOptions options = options_;
    options.compute_dtype = of_type;
    auto model = LoadCudaModel(options, std::move(device));
    EXPECT_TRUE(model.ok()) << model.status();
    return *std::move(model);
  }

  static ComputeDType type() { return std::get<1>(GetParam()); }

  static std::vector<TokenId> RandomTokens(int64_t count, uint64_t seed = 3) {
    std::mt19937_64 random(seed);
    std::vector<TokenId> tokens;
    for (int64_t i = 0; i < count; ++i)
      tokens.push_back(static_cast<TokenId>(random() % kVocab));
    return tokens;
  }
  // A sequence with a prompt of so many tokens.
  static CacheId Prompted(LanguageModel& model, int64_t count,
                          uint64_t seed = 3) {
    const CacheId cache = model.NewSequence();
    const auto rows = Prefill(model, cache, RandomTokens(count, seed), 70);
    EXPECT_TRUE(rows.ok()) << rows.status();
    return cache;
  }
  // One token that is committed: its logits.
  static Row Decode(LanguageModel& model, CacheId cache, TokenId token) {
    const auto rows = model.Forward({AllRows(cache, {{token}, {-1}})});
    EXPECT_TRUE(rows.ok()) << rows.status();
    EXPECT_TRUE(model.Keep(cache, {0}, {}).ok());
    return RowOf(**rows, 0);
  }

  testing::TinyTensors tensors_;
  ModelOptions options_;
  std::shared_ptr<cuda::ComputeDevice> cuda_;
  const Tree tree_ = {{5, 190, 17, 17, 2, 90, 41, 8, 8},
                      {-1, 0, 1, 1, 0, 4, 5, 2, 3}};
};
std::string NameOfCase(
    const ::testing::TestParamInfo<CudaModelTest::ParamType>& info) {
  const auto& [kind, type, device] = info.param;
  return absl::StrCat(kind, "_", NameOf(type), "_", device);
}
INSTANTIATE_TEST_SUITE_P(
    Models, CudaModelTest,
    ::testing::Combine(::testing::Values("llama", "qwen3"),
                       ::testing::Values(ComputeDType::kBFloat16,
                                         ComputeDType::kFp8),
                       ::testing::Values("emulated", "cuda")),
    NameOfCase);

TEST_P(CudaModelTest, LogitsAndFeaturesAreNearTheCpus) {
  const auto cpu = LoadNativeModel(options_);
  ASSERT_TRUE(cpu.ok()) << cpu.status();
  const auto model = Load();
  const std::vector<int32_t> taps = {0, 1, 2, 3};
  const std::vector<int32_t> path = tree_.PathTo(8);
  std::vector<float> features[2];
  std::unique_ptr<LogitRows> logits[2];
  LanguageModel* const models[] = {cpu->get(), model.get()};
  for (int i = 0; i < 2; ++i) {
    SequenceRows rows = AllRows(Prompted(*models[i], 75), tree_);
    rows.taps = taps;
    auto done = models[i]->Forward({rows});
    ASSERT_TRUE(done.ok()) << done.status();
    logits[i] = *std::move(done);
    const int64_t hidden = models[i]->info().config.hidden_size;
    std::vector<uint16_t> bits(path.size() * taps.size() * hidden);
    ASSERT_TRUE(models[i]->Keep(rows.cache, path, absl::MakeSpan(bits)).ok());
    features[i].resize(bits.size());
    std::transform(bits.begin(), bits.end(), features[i].begin(), Bf16ToFloat);
  }
  const bool rounds_weights = type() == ComputeDType::kFp8;
  const auto error = [](absl::Span<const float> a, absl::Span<const float> b) {
    double errors = 0, squares = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      errors += std::pow(double{a[i]} - b[i], 2);
      squares += std::pow(double{a[i]}, 2);
    }
    return std::sqrt(errors / squares);
  };
  for (int row = 0; row < 9; ++row) {
    EXPECT_LT(error(logits[0]->Row(row), logits[1]->Row(row)),
              rounds_weights ? 0.25 : 0.02)
        << row;
  }
  EXPECT_LT(error(features[0], features[1]), rounds_weights ? 0.2 : 0.01);
}

// To the bit: scales that are powers of two round nothing.
TEST_P(CudaModelTest, WhatE4m3HoldsGivesTheBitsOfBfloat16) {
  if (type() != ComputeDType::kFp8) GTEST_SKIP() << "compares both types";
  RoundWeights();
  const auto model = Load();
  const auto wide = LoadOn(Device(), ComputeDType::kBFloat16);
  const auto a = model->Forward({AllRows(Prompted(*model, 75), tree_)});
  const auto b = wide->Forward({AllRows(Prompted(*wide, 75), tree_)});
  ASSERT_TRUE(a.ok() && b.ok());
  for (int row = 0; row < 9; ++row) {
    EXPECT_EQ(RowOf(**a, row), RowOf(**b, row));
  }
}

// It is another one, and says so.
TEST_P(CudaModelTest, IsAModelOfItsComputeType) {
  const auto model = Load();
  const ModelInfo& info = model->info();
  EXPECT_EQ(info.compute_dtype, NameOf(type()));
  const bool is_fp8 = type() == ComputeDType::kFp8;
  const auto other =
      LoadOn(Device(), is_fp8 ? ComputeDType::kBFloat16 : ComputeDType::kFp8);
  EXPECT_NE(other->info().fingerprint, info.fingerprint);
  EXPECT_EQ(Load()->info().fingerprint, info.fingerprint);
  // A byte for each weight of a product, and four for each output.
  const ModelConfig& c = info.config;
  const int64_t attention = c.num_heads * c.head_dim;
  const int64_t kv = c.num_kv_heads * c.head_dim;
  const int64_t weights =
      c.num_layers * (c.hidden_size * (2 * attention + 2 * kv) +
                      3 * c.hidden_size * c.ffn_size);
  const int64_t outputs =
      c.num_layers * (attention + 2 * kv + 2 * c.ffn_size + 2 * c.hidden_size);
  const int64_t saved = other->info().weight_bytes - info.weight_bytes;
  EXPECT_EQ(std::abs(saved), weights - 4 * outputs);
  EXPECT_EQ(saved > 0, is_fp8);
}

TEST_P(CudaModelTest, LargerPassesAllocateNoMoreThanSmallOnes) {
  if (cuda_ != nullptr) GTEST_SKIP() << "counts on the emulated device";
  const auto device = std::make_shared<testing::WatchedDevice>();
  const auto model = LoadOn(device);
  const auto allocations_of = [&](int rows) {
    Tree tree = {RandomTokens(rows), std::vector<int32_t>(rows, 0)};
    tree.parents[0] = -1;
    const int before = device->allocations;
    EXPECT_TRUE(model->Forward({AllRows(model->NewSequence(), tree)}).ok());
    return device->allocations - before;
  };
  allocations_of(1);
  EXPECT_EQ(allocations_of(1), allocations_of(100));
}

// A round: a pass, and what is kept of it with its features. All that goes to
// the device goes in one copy, and so does what comes back.
TEST_P(CudaModelTest, ARoundWaitsTwice) {
  if (cuda_ != nullptr) GTEST_SKIP() << "counts on the emulated device";
  const auto device = std::make_shared<testing::WatchedDevice>();
  const auto model = LoadOn(device);
  const CacheId cache = Prompted(*model, 75);
  const std::vector<int32_t> taps = {1, 3};
  const std::vector<int32_t> path = tree_.PathTo(8);
  std::vector<uint16_t> bits(path.size() * taps.size() *
                             model->info().config.hidden_size);
  for (const bool with_features : {true, false}) {
    SequenceRows rows = AllRows(cache, tree_, DrawRequest{.temperature = 1});
    if (with_features) rows.taps = taps;
    device->waits = device->copies = 0;
    ASSERT_TRUE(model->Forward({rows}).ok());
    EXPECT_LE(device->waits, with_features ? 1 : 2);
    EXPECT_EQ(device->copies, 2);
    const auto features =
        with_features ? absl::MakeSpan(bits) : absl::Span<uint16_t>();
    ASSERT_TRUE(model->Keep(cache, path, features).ok());
    EXPECT_LE(device->waits, 2);
    EXPECT_EQ(device->copies, with_features ? 4 : 3);
  }
}

TEST_P(CudaModelTest, GoesOnAfterAPassThatFindsNoRoom) {
  if (cuda_ != nullptr) GTEST_SKIP() << "fails on the emulated device";
  const auto device = std::make_shared<testing::WatchedDevice>();
  const auto model = LoadOn(device);
  const CacheId cache = Prompted(*model, 20);
  const auto before = model->Forward({AllRows(cache, tree_)});
  device->is_full = true;
  const auto failed = model->Forward({AllRows(cache, tree_)});
  EXPECT_EQ(failed.status().code(), absl::StatusCode::kResourceExhausted);
  device->is_full = false;
  EXPECT_EQ(model->Length(cache), 20);
  const auto after = model->Forward({AllRows(cache, tree_)});
  ASSERT_TRUE(before.ok() && after.ok());
  for (int row = 0; row < 9; ++row) {
    EXPECT_EQ(RowOf(**before, row), RowOf(**after, row));
  }
}

TEST_P(CudaModelTest, ALostDeviceIsUnavailable) {
  if (cuda_ != nullptr) GTEST_SKIP() << "fails on the emulated device";
  const auto device = std::make_shared<testing::WatchedDevice>();
  const auto model = LoadOn(device);
  const CacheId cache = Prompted(*model, 20);
  device->is_lost = true;
  for (int i = 0; i < 2; ++i) {
    const auto failed = model->Forward({AllRows(cache, tree_)});
    EXPECT_EQ(failed.status().code(), absl::StatusCode::kUnavailable);
  }
}

TEST_P(CudaModelTest, ByDefaultThePoolIsMostOfWhatTheWeightsLeave) {
  if (cuda_ != nullptr) GTEST_SKIP() << "needs all of a device";
  options_.kv_pool_bytes = 0;
  constexpr int64_t kMemory = 16 << 20;
  const auto model = LoadOn(std::make_shared<cuda::EmulatedDevice>(
      cuda::EmulatedDevice::Options{.memory_bytes = kMemory}));
  const ModelInfo& info = model->info();
  const int64_t pool = model->kv_usage().total_tokens * info.kv_bytes_per_token;
  const int64_t left = kMemory - info.weight_bytes;
  EXPECT_LE(pool, left / 10 * 9);
  EXPECT_GT(pool, left / 10 * 8);
  const DeviceMemory memory = model->device_memory();
  EXPECT_EQ(memory.total_bytes, kMemory);
  EXPECT_GE(memory.used_bytes, pool + info.weight_bytes);
}

TEST_P(CudaModelTest, HasNoOtherComputeType) {
  const auto model = LoadCudaModel(
      options_,
      std::make_shared<cuda::EmulatedDevice>(cuda::EmulatedDevice::Options{}));
  EXPECT_EQ(model.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(model.status().message(), HasSubstr("float32"));
}

TEST_P(CudaModelTest, RandomWeightsAreThoseOfTheCpu) {
  options_.random_weights = 7;
  const auto cpu = LoadNativeModel(options_);
  ASSERT_TRUE(cpu.ok()) << cpu.status();
  const auto model = Load();
  const Row a = Decode(**cpu, (*cpu)->NewSequence(), 5);
  const Row b = Decode(*model, model->NewSequence(), 5);
  // e4m3 holds random weights exactly.
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 0.1);
}

TEST_P(CudaModelTest, NamesTheRowCountsThatFillItsBlocks) {
  const auto model = Load();
  const std::vector<int64_t>& edges = model->info().row_edges;
  ASSERT_FALSE(edges.empty());
  for (int64_t edge : edges) {
    EXPECT_EQ(cuda::RowBlock(static_cast<int>(edge)), edge);
    EXPECT_LE(edge, model->info().max_rows);
  }
}

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
  // And what was kept is what would have been decoded.
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
  // Of other taps, in the same pass.
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

TEST(CheckCudaCoversTest, NamesWhatIsMissing) {
  ModelConfig config = {.hidden_size = 128,
                        .num_heads = 4,
                        .num_kv_heads = 2,
                        .head_dim = 64,
                        .ffn_size = 192,
                        .vocab_size = 300};
  EXPECT_TRUE(CheckCudaCovers(config).ok());
  ModelConfig other = config;
  other.head_dim = 80;
  EXPECT_EQ(CheckCudaCovers(other).code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(CheckCudaCovers(other).message()),
              HasSubstr("heads of 64 or 128"));
  other = config;
  other.architecture = Architecture::kGpt2;
  EXPECT_FALSE(CheckCudaCovers(other).ok());
}

}  // namespace
}  // namespace espalier
