#include "common/model/cuda/cuda_model.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/bf16.h"
#include "common/cuda/layout.h"
#include "common/model/native/native_model.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/common/model/cuda/cuda_model_fixture.h"
#include "tests/testing/watched_device.h"

namespace espalier {
namespace {

using ::testing::HasSubstr;

std::string NameOfCase(
    const ::testing::TestParamInfo<CudaModelTest::ParamType>& info) {
  const auto& [kind, type, device] = info.param;
  const std::string name = absl::StrCat(kind, "_", NameOf(type), "_", device);
  // One of the models that run the same code is not nightly on that device.
  const bool is_nightly = device == "emulated" &&
                          name != "qwen3_fp8_emulated" &&
                          name != "gemma3_bfloat16_emulated" &&
                          name != "qwen3moe_bfloat16_emulated";
  return is_nightly ? "Nightly_" + name : name;
}
std::vector<CudaModelTest::ParamType> Cases() {
  std::vector<CudaModelTest::ParamType> cases;
  for (const char* device : {"emulated", "cuda"}) {
    for (const char* kind :
         {"llama", "qwen3", "mistral", "gemma3", "qwen3moe"}) {
      cases.emplace_back(kind, ComputeDType::kBFloat16, device);
    }
    for (const char* kind : {"llama", "qwen3", "qwen3moe"}) {
      cases.emplace_back(kind, ComputeDType::kFp8, device);
    }
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Models, CudaModelTest, ::testing::ValuesIn(Cases()),
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
  // Which activations round up to another bf16 differs between CPUs.
  std::vector<double> errors;
  for (int row = 0; row < 9; ++row) {
    errors.push_back(error(logits[0]->Row(row), logits[1]->Row(row)));
  }
  std::sort(errors.begin(), errors.end());
  // Rounding sends some rows to other experts.
  const bool mixture = !model->info().config.layers.front().is_dense();
  EXPECT_LT(mixture ? errors[errors.size() / 2] : errors.back(),
            rounds_weights ? 0.25 : 0.03);
  if (mixture && rounds_weights) return;
  EXPECT_LT(error(features[0], features[1]), rounds_weights ? 0.2 : 0.02);
}

// The bits are equal: scales that are powers of two round nothing.
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
  const LayerShape& layer = c.layers[0];
  const int64_t mlps = layer.is_dense() ? 1 : layer.experts.count;
  const int64_t ffn =
      layer.is_dense() ? layer.ffn_size : layer.experts.ffn_size;
  const int64_t weights =
      c.num_layers * (c.hidden_size * (2 * attention + 2 * kv) +
                      3 * mlps * c.hidden_size * ffn);
  const int64_t outputs = c.num_layers * (attention + 2 * kv + c.hidden_size +
                                          mlps * (2 * ffn + c.hidden_size));
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
  const auto allocations_of_prompt = [&](int64_t rows) {
    const int before = device->allocations;
    EXPECT_TRUE(
        Prefill(*model, model->NewSequence(), RandomTokens(rows), rows).ok());
    return device->allocations - before;
  };
  allocations_of(1);
  EXPECT_EQ(allocations_of(1), allocations_of(100));
  allocations_of_prompt(1);
  EXPECT_EQ(allocations_of_prompt(1),
            allocations_of_prompt(model->info().max_chain_rows));
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
  constexpr int64_t kMemory = 64 << 20;
  const auto model = LoadOn(std::make_shared<cuda::EmulatedDevice>(
      cuda::EmulatedDevice::Options{.memory_bytes = kMemory}));
  const ModelInfo& info = model->info();
  const int64_t pool = info.kv_groups.TokensIn(model->kv_usage().total_tokens) *
                       info.kv_bytes_per_token;
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

// The second layer is dense.
TEST(CudaMixtureModelTest, LayersMayBeDense) {
  const std::string folder = ::testing::TempDir() + "/cuda_mixed_model";
  testing::TinyTensors tensors = testing::WriteWideQwen3Moe(folder);
  std::erase_if(tensors, [](const auto& tensor) {
    return absl::StartsWith(tensor.first, "model.layers.1.mlp.");
  });
  for (const auto& [name, tensor] :
       testing::WriteWideQwen3(folder + "_dense")) {
    if (absl::StartsWith(name, "model.layers.1.mlp.")) tensors[name] = tensor;
  }
  testing::WriteSafetensors(folder + "/model.safetensors", tensors);
  nlohmann::json config =
      nlohmann::json::parse(std::ifstream(folder + "/config.json"));
  config["mlp_only_layers"] = {1};
  std::ofstream(folder + "/config.json") << config;

  ModelOptions options = {.folder = folder, .kv_pool_bytes = 8 << 20};
  const auto cpu = LoadNativeModel(options);
  options.compute_dtype = ComputeDType::kBFloat16;
  const auto model = LoadCudaModel(
      options,
      std::make_shared<cuda::EmulatedDevice>(cuda::EmulatedDevice::Options{}));
  ASSERT_TRUE(cpu.ok() && model.ok()) << cpu.status() << model.status();
  double errors = 0, squares = 0;
  const Tree one = {{5}, {-1}};
  const auto a = (*cpu)->Forward({AllRows((*cpu)->NewSequence(), one)});
  const auto b = (*model)->Forward({AllRows((*model)->NewSequence(), one)});
  ASSERT_TRUE(a.ok() && b.ok());
  for (int64_t i = 0; i < kVocab; ++i) {
    errors += std::pow((*a)->Row(0)[i] - (*b)->Row(0)[i], 2);
    squares += std::pow((*a)->Row(0)[i], 2);
  }
  EXPECT_LT(std::sqrt(errors / squares), 0.03);
}

TEST(CheckCudaCoversTest, NamesWhatIsMissing) {
  ModelConfig config = {.hidden_size = 128,
                        .num_heads = 4,
                        .num_kv_heads = 2,
                        .head_dim = 64,
                        .vocab_size = 300,
                        .rotary = {RotaryTable()},
                        .layers = {{.ffn_size = 192}}};
  EXPECT_TRUE(CheckCudaCovers(config).ok());
  ModelConfig other = config;
  other.head_dim = 80;
  EXPECT_EQ(CheckCudaCovers(other).code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(CheckCudaCovers(other).message()),
              HasSubstr("heads of 64, 128 or 256"));
  other = config;
  other.kind = DecoderKind::kGpt2;
  EXPECT_FALSE(CheckCudaCovers(other).ok());
  other = config;
  other.layers[0].experts = {.count = 4, .per_row = 2, .ffn_size = 64};
  EXPECT_TRUE(CheckCudaCovers(other).ok());
  other.layers[0].experts.ffn_size = 96;
  EXPECT_THAT(std::string(CheckCudaCovers(other).message()),
              HasSubstr("moe_intermediate_size % 64 == 0"));
  other.layers[0].experts = {.count = 513, .per_row = 2, .ffn_size = 64};
  EXPECT_THAT(std::string(CheckCudaCovers(other).message()),
              HasSubstr("at most 512 experts"));
  other = config;
  other.layers[0].activation = Activation::kGelu;
  EXPECT_THAT(std::string(CheckCudaCovers(other).message()),
              HasSubstr("GELU approximated by tanh"));
  other = config;
  other.layers[0].norms_before = false;
  EXPECT_THAT(std::string(CheckCudaCovers(other).message()),
              HasSubstr("the CUDA backend has no layers without norms"));
  other = config;
  other.layers[0].score_softcap = 50;
  EXPECT_THAT(
      std::string(CheckCudaCovers(other).message()),
      HasSubstr("the CUDA backend has no softcaps of attention's scores"));
  other = config;
  other.logit_softcap = 30;
  EXPECT_THAT(std::string(CheckCudaCovers(other).message()),
              HasSubstr("the CUDA backend has no softcaps of logits"));
}

}  // namespace
}  // namespace espalier
