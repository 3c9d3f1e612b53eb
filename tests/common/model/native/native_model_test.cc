// Promises of models on our own kernels: bits do not depend on other rows, the
// threads or what was in a page before.

#include <algorithm>
#include <optional>
#include <ostream>
#include <random>

#include "common/model/load/load_model.h"
#include "common/nn/cpu_backend.h"
#include "gtest/gtest.h"
#include "tests/testing/cuda_test_device.h"
#include "tests/testing/source_path.h"
#include "tests/testing/tiny_model.h"

namespace espalier {
namespace {

using Rows = std::vector<std::vector<float>>;

struct Subject {
  const char* architecture;
  testing::TinyTensors (*write)(const std::string& folder, uint64_t seed);
  std::string kernels;  // of the CPU, or "cuda"
  ComputeDType dtype = ComputeDType::kFloat32;

  std::optional<nn::KvType> kv_type = {};

  bool is_cuda() const { return kernels == "cuda"; }
};

std::string NameOf(const Subject& subject) {
  std::string name = subject.architecture + ("_" + subject.kernels);
  name += std::string("_") + NameOf(subject.dtype);
  if (subject.kv_type) name += std::string("_kv_") + NameOf(*subject.kv_type);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

void PrintTo(const Subject& subject, std::ostream* out) {
  *out << NameOf(subject);
}

std::vector<Subject> Subjects() {
  std::vector<Subject> subjects;
  for (const nn::Kernels* kernels : nn::UsableBackends()) {
    for (ComputeDType dtype : kNativeComputeDTypes) {
      const std::string name = kernels->name;
      subjects.push_back({"Llama", testing::WriteTinyLlama, name, dtype});
      // Its heads are whole blocks.
      subjects.push_back({"WideLlama", testing::WriteWideLlama, name, dtype});
      subjects.push_back({"Qwen3", testing::WriteTinyQwen3, name, dtype});
      subjects.push_back({"Gpt2", testing::WriteTinyGpt2, name, dtype});
      subjects.push_back({"Qwen3Moe", testing::WriteTinyQwen3Moe, name, dtype});
      subjects.push_back({"Gemma3", testing::WriteTinyGemma3, name, dtype});
      subjects.push_back({"Gemma2", testing::WriteTinyGemma2, name, dtype});
    }
    subjects.push_back({"Llama", testing::WriteTinyLlama, kernels->name,
                        ComputeDType::kInt4, nn::KvType::kInt8});
  }
  return subjects;
}

std::vector<Subject> AllSubjects() {
  std::vector<Subject> subjects = Subjects();
  if (testing::HasCudaTestDevice()) {
    constexpr auto kType = ComputeDType::kBFloat16;
    subjects.push_back({"Llama", testing::WriteWideLlama, "cuda", kType});
    subjects.push_back({"Qwen3", testing::WriteWideQwen3, "cuda", kType});
  }
  return subjects;
}

class OwnKernelsTest : public ::testing::TestWithParam<Subject> {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "/native_model_test_" + NameOf(GetParam());
    GetParam().write(folder_, /*seed=*/1);
  }

  std::unique_ptr<LanguageModel> Load(int64_t threads) {
    ModelOptions options = {.folder = folder_,
                            .compute_dtype = GetParam().dtype,
                            .threads = threads,
                            .kv_cache_type = GetParam().kv_type};
    if (GetParam().is_cuda()) {
      options.backend = "cuda";
      options.device = testing::CudaTestDevice();
      options.kv_pool_bytes = 8 << 20;
    } else {
      options.backend = "native";
      options.cpu_kernels = GetParam().kernels;
    }
    auto model = LoadModel(options);
    EXPECT_TRUE(model.ok()) << model.status();
    return *std::move(model);
  }

  // Logits of all rows.
  static Rows Forward(LanguageModel& model, CacheId cache,
                      const std::vector<TokenId>& tokens,
                      const std::vector<int32_t>& parents) {
    const SequenceRows rows = {
        .cache = cache,
        .tokens = tokens,
        .parents = parents,
        .num_logit_rows = static_cast<int64_t>(tokens.size())};
    auto logits = model.Forward({&rows, 1});
    EXPECT_TRUE(logits.ok()) << logits.status();
    Rows copy;
    for (int64_t row = 0; row < (*logits)->num_rows(); ++row) {
      copy.emplace_back((*logits)->Row(row).begin(), (*logits)->Row(row).end());
    }
    return copy;
  }

  std::vector<TokenId> Tokens(int64_t count) {
    std::vector<TokenId> tokens;
    for (int64_t i = 0; i < count; ++i) tokens.push_back(random_() % 256);
    return tokens;
  }

  std::mt19937 random_{11};
  std::string folder_;
};

// On the CPU.
class NativeModelTest : public OwnKernelsTest {};

INSTANTIATE_TEST_SUITE_P(Subjects, NativeModelTest,
                         ::testing::ValuesIn(Subjects()),
                         [](const auto& test) { return NameOf(test.param); });
INSTANTIATE_TEST_SUITE_P(Subjects, OwnKernelsTest,
                         ::testing::ValuesIn(AllSubjects()),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(NativeModelTest, LogitsDoNotDependOnTheNumberOfThreads) {
  const std::vector<TokenId> prompt = Tokens(70), tokens = Tokens(33);
  std::vector<int32_t> parents = {kPrefixParent};
  for (int32_t row = 1; row < 33; ++row) parents.push_back(random_() % row);
  Rows expected;
  for (int64_t threads : {1, 2, 3, 8}) {
    const auto model = Load(threads);
    const CacheId cache = model->NewSequence();
    ASSERT_TRUE(Prefill(*model, cache, prompt, 256).ok());
    const Rows rows = Forward(*model, cache, tokens, parents);
    if (expected.empty()) expected = rows;
    EXPECT_EQ(rows, expected) << threads << " threads";
  }
}

// Two K/V heads on eight threads: these share the heads where the context is
// long, within a window or without.
TEST_P(NativeModelTest, LongContextDoesNotDependOnTheNumberOfThreads) {
  const std::vector<TokenId> prompt = Tokens(490), tokens = Tokens(5);
  const std::vector<int32_t> parents = {kPrefixParent, 0, 0, 1, 2};
  for (size_t rows : {1, 5}) {
    Rows expected;
    for (int64_t threads : {1, 8}) {
      const auto model = Load(threads);
      const CacheId cache = model->NewSequence();
      ASSERT_TRUE(Prefill(*model, cache, prompt, 256).ok());
      const Rows got =
          Forward(*model, cache, {tokens.begin(), tokens.begin() + rows},
                  {parents.begin(), parents.begin() + rows});
      if (expected.empty()) expected = got;
      EXPECT_EQ(got, expected) << threads << " threads, " << rows << " rows";
    }
  }
}

// Some have a few rows, and some so many that several tasks attend for a head.
TEST_P(NativeModelTest, SequencesOfAPassHaveTheBitsThatTheyHaveAlone) {
  const auto model = Load(2);
  const std::vector<TokenId> tokens = Tokens(30);
  const std::vector<int32_t> parents = [] {
    std::vector<int32_t> chain;
    for (int32_t row = 0; row < 30; ++row) chain.push_back(row - 1);
    return chain;
  }();
  for (size_t first_rows : {3, 30}) {
    std::vector<SequenceRows> together;
    Rows expected;
    for (size_t rows : {first_rows, size_t{2}}) {
      const CacheId cache = model->NewSequence();
      ASSERT_TRUE(Prefill(*model, cache, Tokens(20 + rows), 256).ok());
      together.push_back({.cache = cache,
                          .tokens = absl::MakeConstSpan(tokens).first(rows),
                          .parents = absl::MakeConstSpan(parents).first(rows),
                          .num_logit_rows = static_cast<int64_t>(rows)});
      for (Rows alone =
               Forward(*model, cache, {tokens.begin(), tokens.begin() + rows},
                       {parents.begin(), parents.begin() + rows});
           std::vector<float> & row : alone) {
        expected.push_back(std::move(row));
      }
    }
    const auto logits = model->Forward(together);
    ASSERT_TRUE(logits.ok()) << logits.status();
    for (size_t row = 0; row < expected.size(); ++row) {
      const absl::Span<const float> got = (*logits)->Row(row);
      ASSERT_EQ(std::vector<float>(got.begin(), got.end()), expected[row])
          << row;
    }
  }
}

// Every row count goes through another mix of register tiles. On a GPU, those
// at the edges of blocks do.
TEST_P(OwnKernelsTest, FirstRowIsTheSameForEveryNumberOfRows) {
  const auto model = Load(2);
  const CacheId cache = model->NewSequence();
  ASSERT_TRUE(Prefill(*model, cache, Tokens(45), 256).ok());
  const std::vector<TokenId> tokens = Tokens(70);
  std::vector<int32_t> parents(70, 0);
  parents[0] = kPrefixParent;
  Rows expected;
  for (size_t rows = 70; rows >= 1; --rows) {
    if (GetParam().is_cuda() && rows < 70 && rows % 16 > 1) continue;
    const Rows got =
        Forward(*model, cache, {tokens.begin(), tokens.begin() + rows},
                {parents.begin(), parents.begin() + rows});
    if (expected.empty()) expected = got;
    ASSERT_EQ(got, Rows(expected.begin(), expected.begin() + rows)) << rows;
  }
}

// The answers of a pass without stored logits equal those from the logits, with
// any other rows and any number of threads.
TEST_P(NativeModelTest, RequestedAnswersAreThoseOfTheLogits) {
  const std::vector<TokenId> prompt = Tokens(20), tokens = Tokens(40);
  std::vector<int32_t> parents = {kPrefixParent};
  for (int32_t row = 1; row < 40; ++row) parents.push_back(random_() % row);
  const DrawRequest greedy = {}, sampled = {.temperature = 1.3f, .seed = 99};
  const RankRequest ranked = {.top_k = 7};
  constexpr int64_t kLogitRows = 35;
  RowSupports supports;
  for (TokenId row = 0; row < kLogitRows; ++row) supports.Add({row, 200, 257});
  const GatherRequest gathered = {
      .temperature = 0.8f,
      .seed = 98,
      .round = 20,
      .supports = std::make_shared<RowSupports>(supports)};
  for (int64_t threads : {1, 3}) {
    const auto model = Load(threads);
    std::vector<SequenceRows> batch;
    for (const auto& use :
         {LogitUse(AnyUse{}), {greedy}, {sampled}, {ranked}, {gathered}}) {
      const CacheId cache = model->NewSequence();
      ASSERT_TRUE(Prefill(*model, cache, prompt, 256).ok());
      batch.push_back({.cache = cache,
                       .tokens = tokens,
                       .parents = parents,
                       .num_logit_rows = kLogitRows,
                       .use = use});
    }
    const auto rows = model->Forward(batch);
    ASSERT_TRUE(rows.ok());
    const LogitRows& got = **rows;
    ASSERT_EQ(got.num_rows(), 5 * kLogitRows);
    std::vector<int64_t> positions = {20};
    for (int32_t row = 1; row < 40; ++row) {
      positions.push_back(positions[parents[row]] + 1);
    }
    for (int64_t i = 0; i < kLogitRows; ++i) {
      const absl::Span<const float> logits = got.Row(i);
      const int64_t sampled_at = positions[40 - kLogitRows + i] + 1;
      EXPECT_EQ(*got.Draw(kLogitRows + i, greedy, sampled_at),
                *DrawFrom(logits, greedy, sampled_at));
      EXPECT_EQ(*got.Draw(2 * kLogitRows + i, sampled, sampled_at),
                *DrawFrom(logits, sampled, sampled_at));
      EXPECT_EQ(*got.Draw(i, sampled, sampled_at),
                *DrawFrom(logits, sampled, sampled_at));
      const Ranking ranking = *RankFrom(logits, ranked);
      EXPECT_EQ(got.Rank(3 * kLogitRows + i, ranked)->top, ranking.top);
      EXPECT_NEAR(got.Rank(3 * kLogitRows + i, ranked)->log_sum_exp,
                  ranking.log_sum_exp, 1e-5);
      EXPECT_EQ(got.Rank(i, ranked)->log_sum_exp, ranking.log_sum_exp);
      const GatheredRow expected = *GatherFrom(logits, gathered, i);
      const int64_t row = 4 * kLogitRows + i;
      EXPECT_EQ(got.Gather(row, gathered, i)->log_weights,
                expected.log_weights);
      EXPECT_NEAR(got.Gather(row, gathered, i)->outside, expected.outside,
                  1e-5 * expected.outside);
      EXPECT_EQ(got.Gather(i, gathered, i)->outside, expected.outside);
      EXPECT_EQ(*got.SampleOutside(row, gathered, i),
                *SampleOutsideFrom(logits, gathered, i));
      EXPECT_EQ(*got.SampleOutside(i, gathered, i),
                *SampleOutsideFrom(logits, gathered, i));
    }
  }
}

TEST_P(OwnKernelsTest, ReusedPagesLeaveNoTrace) {
  const auto model = Load(1);
  const std::vector<TokenId> prompt = Tokens(100);
  auto last = [&] {
    const CacheId cache = model->NewSequence();
    auto logits = Prefill(*model, cache, prompt, 64);
    EXPECT_TRUE(logits.ok());
    const std::vector<float> row((*logits)->Row(0).begin(),
                                 (*logits)->Row(0).end());
    model->Release(cache);
    return row;
  };
  const std::vector<float> expected = last();
  const CacheId other = model->NewSequence();
  ASSERT_TRUE(Prefill(*model, other, Tokens(150), 64).ok());
  model->Release(other);
  EXPECT_EQ(last(), expected);
}

TEST_P(OwnKernelsTest, LogitsOutliveTheModel) {
  auto model = Load(1);
  auto logits = Prefill(*model, model->NewSequence(), {1, 2, 3}, 256);
  ASSERT_TRUE(logits.ok());
  model.reset();
  EXPECT_EQ((*logits)->Row(0).size(), 258u);
}

// Two layers of two experts a row, and a dense one between them.
TEST(NativeModelExpertsTest, CountsTheExpertsThatAPassReads) {
  const auto model = LoadModel(
      {.folder = SourcePath("tests/common/model/goldens/tiny-qwen3-moe"),
       .random_weights = 1,
       .backend = "native"});
  ASSERT_TRUE(model.ok()) << model.status();
  const auto read = [&](const std::vector<TokenId>& tokens) {
    std::vector<int32_t> parents(tokens.size(), 0);
    parents[0] = kPrefixParent;
    const CacheId cache = (*model)->NewSequence();
    const SequenceRows rows = {
        .cache = cache, .tokens = tokens, .parents = parents};
    EXPECT_TRUE((*model)->Forward({&rows, 1}).ok());
    (*model)->Release(cache);
    return (*model)->experts_read();
  };
  EXPECT_EQ(read({5}), 4);
  const int64_t unlike = read({5, 6, 7, 8, 9, 10});
  EXPECT_GT(unlike, 4);
  EXPECT_LE(unlike, 12);
  EXPECT_LE(read({5, 5, 5}), read({5, 6, 7}));
}

}  // namespace
}  // namespace espalier
