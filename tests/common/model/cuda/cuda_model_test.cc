#include "common/model/cuda/cuda_model.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/bf16.h"
#include "common/cuda/cuda_device.h"
#include "common/cuda/emulated_device.h"
#include "common/cuda/layout.h"
#include "common/model/native/native_model.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/tiny_model.h"

namespace espalier {
namespace {

using ::testing::HasSubstr;
using Row = std::vector<float>;

constexpr int64_t kHidden = 128, kHeads = 4, kKvHeads = 2, kDim = 64;
constexpr int64_t kFfn = 192, kVocab = 300, kLayers = 2;

// Random weights, small enough to be emulated and wide enough for the kernels.
class FolderWriter {
 public:
  explicit FolderWriter(bool qwen3) : qwen3_(qwen3) {}

  void Write(const std::string& folder) {
    std::filesystem::create_directories(folder);
    std::string config = R"({
      "architectures": ["LlamaForCausalLM"], "model_type": "llama",
      "num_hidden_layers": 2, "hidden_size": 128, "num_attention_heads": 4,
      "num_key_value_heads": 2, "head_dim": 64, "intermediate_size": 192,
      "vocab_size": 300, "max_position_embeddings": 512, "hidden_act": "silu",
      "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "attention_bias": false,
      "tie_word_embeddings": false})";
    if (qwen3_) {
      config =
          absl::StrReplaceAll(config, {{"LlamaForCausalLM", "Qwen3ForCausalLM"},
                                       {"\"llama\"", "\"qwen3\""},
                                       {"\"tie_word_embeddings\": false",
                                        "\"tie_word_embeddings\": true"}});
    }
    std::ofstream(folder + "/config.json") << config;
    Add("model.embed_tokens.weight", {kVocab, kHidden}, 1);
    for (int64_t i = 0; i < kLayers; ++i) AddLayer(i);
    Add("model.norm.weight", {kHidden}, 0.1f, 1);
    if (!qwen3_) Matrix("lm_head.weight", kVocab, kHidden);
    testing::WriteSafetensors(folder + "/model.safetensors", tensors_);
  }

 private:
  void Add(const std::string& name, std::vector<int64_t> shape, float scale,
           float mean = 0) {
    testing::TinyTensor& tensor = tensors_[name];
    tensor.shape = std::move(shape);
    int64_t size = 1;
    for (int64_t n : tensor.shape) size *= n;
    for (int64_t i = 0; i < size; ++i) {
      const float value = mean + scale * normal_(random_);
      tensor.values.push_back(Bf16ToFloat(FloatToBf16(value)));
    }
  }
  void Matrix(const std::string& name, int64_t outputs, int64_t inputs) {
    Add(name, {outputs, inputs}, 1 / std::sqrt(static_cast<float>(inputs)));
  }
  void AddLayer(int64_t index) {
    const std::string layer = absl::StrCat("model.layers.", index, ".");
    const std::string attention = layer + "self_attn.";
    Add(layer + "input_layernorm.weight", {kHidden}, 0.1f, 1);
    Matrix(attention + "q_proj.weight", kHeads * kDim, kHidden);
    Matrix(attention + "k_proj.weight", kKvHeads * kDim, kHidden);
    Matrix(attention + "v_proj.weight", kKvHeads * kDim, kHidden);
    Matrix(attention + "o_proj.weight", kHidden, kHeads * kDim);
    if (qwen3_) {
      Add(attention + "q_norm.weight", {kDim}, 0.1f, 1);
      Add(attention + "k_norm.weight", {kDim}, 0.1f, 1);
    }
    Add(layer + "post_attention_layernorm.weight", {kHidden}, 0.1f, 1);
    Matrix(layer + "mlp.gate_proj.weight", kFfn, kHidden);
    Matrix(layer + "mlp.up_proj.weight", kFfn, kHidden);
    Matrix(layer + "mlp.down_proj.weight", kHidden, kFfn);
  }

  const bool qwen3_;
  std::mt19937_64 random_{5};
  std::normal_distribution<float> normal_;
  testing::TinyTensors tensors_;
};

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

// The parameter: the kind of model, and the device.
class CudaModelTest
    : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  void SetUp() override {
    const auto& [kind, device] = GetParam();
    if (device == "cuda") {
      auto opened = cuda::OpenCudaDevice(0);
      if (!opened.ok()) {
        GTEST_SKIP() << "no CUDA device to test: " << opened.status().message();
      }
      cuda_ = *std::move(opened);
    }
    options_.folder = ::testing::TempDir() + "/cuda_model";
    options_.kv_pool_bytes = 8 << 20;
    FolderWriter(kind == "qwen3").Write(options_.folder);
  }

  std::unique_ptr<LanguageModel> Load(uint64_t seed = 1) {
    std::shared_ptr<cuda::ComputeDevice> device = cuda_;
    if (device == nullptr) {
      device = std::make_shared<cuda::EmulatedDevice>(
          cuda::EmulatedDevice::Options{.seed = seed});
    }
    return LoadOn(device);
  }
  std::unique_ptr<LanguageModel> LoadOn(
      std::shared_ptr<cuda::ComputeDevice> device) {
    ModelOptions options = options_;
    options.compute_dtype = ComputeDType::kBFloat16;
    auto model = LoadCudaModel(options, std::move(device));
    EXPECT_TRUE(model.ok()) << model.status();
    return *std::move(model);
  }

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

  ModelOptions options_;
  std::shared_ptr<cuda::ComputeDevice> cuda_;
  const Tree tree_ = {{5, 290, 17, 17, 2, 90, 41, 8, 8},
                      {-1, 0, 1, 1, 0, 4, 5, 2, 3}};
};
INSTANTIATE_TEST_SUITE_P(Models, CudaModelTest,
                         ::testing::Combine(::testing::Values("llama", "qwen3"),
                                            ::testing::Values("emulated",
                                                              "cuda")),
                         [](const auto& test) {
                           return std::get<0>(test.param) + "_" +
                                  std::get<1>(test.param);
                         });

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
    std::vector<uint16_t> bits(path.size() * taps.size() * kHidden);
    ASSERT_TRUE(models[i]->Keep(rows.cache, path, absl::MakeSpan(bits)).ok());
    features[i].resize(bits.size());
    std::transform(bits.begin(), bits.end(), features[i].begin(), Bf16ToFloat);
  }
  const auto error = [](absl::Span<const float> a, absl::Span<const float> b) {
    double errors = 0, squares = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      errors += std::pow(double{a[i]} - b[i], 2);
      squares += std::pow(double{a[i]}, 2);
    }
    return std::sqrt(errors / squares);
  };
  for (int row = 0; row < 9; ++row) {
    EXPECT_LT(error(logits[0]->Row(row), logits[1]->Row(row)), 0.02) << row;
  }
  EXPECT_LT(error(features[0], features[1]), 0.01);
}

// An emulated device that counts what is allocated.
class CountingDevice final : public cuda::ComputeDevice {
 public:
  cuda::DeviceInfo info() const override { return inner_.info(); }
  absl::StatusOr<std::byte*> Allocate(int64_t bytes,
                                      cuda::Memory kind) override {
    ++count_;
    return inner_.Allocate(bytes, kind);
  }
  void Free(std::byte* memory) override { inner_.Free(memory); }
  void Copy(void* to, const void* from, int64_t bytes) override {
    inner_.Copy(to, from, bytes);
  }
  void Launch(const cuda::KernelArgs& args) override { inner_.Launch(args); }
  int64_t Record() override { return inner_.Record(); }
  absl::Status Wait(int64_t event) override { return inner_.Wait(event); }

  int count() const { return count_; }

 private:
  cuda::EmulatedDevice inner_{{.seed = 1}};
  int count_ = 0;
};

TEST_P(CudaModelTest, LargerPassesAllocateNoMoreThanSmallOnes) {
  if (cuda_ != nullptr) GTEST_SKIP() << "counts on the emulated device";
  const auto device = std::make_shared<CountingDevice>();
  const auto model = LoadOn(device);
  const auto allocations_of = [&](int rows) {
    Tree tree = {RandomTokens(rows), std::vector<int32_t>(rows, 0)};
    tree.parents[0] = -1;
    const int before = device->count();
    EXPECT_TRUE(model->Forward({AllRows(model->NewSequence(), tree)}).ok());
    return device->count() - before;
  };
  allocations_of(1);
  EXPECT_EQ(allocations_of(1), allocations_of(100));
}

TEST_P(CudaModelTest, ComputesInBfloat16Alone) {
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
  const auto kept = [&](CacheId cache, int which) {
    std::vector<uint16_t> bits(paths[which].size() * taps[which].size() *
                               kHidden);
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
  std::vector<uint16_t> room(kHidden);
  EXPECT_FALSE(model->Keep(batch[1].cache, {0}, absl::MakeSpan(room)).ok());
  EXPECT_TRUE(model->Keep(batch[1].cache, {0}, {}).ok());
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
  options_.kv_pool_bytes = 4 * 64 * (2 * kLayers * kKvHeads * kDim * 2);
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
