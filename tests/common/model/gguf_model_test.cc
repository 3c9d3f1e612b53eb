// Models in GGUF files: the same as in folders.

#include <cmath>
#include <filesystem>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "common/model/load/load_model.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/tiny_gguf.h"
#include "tests/testing/tiny_model.h"

namespace espalier::gguf_model_test {
namespace {

using testing::GgufBytes;
using ::testing::HasSubstr;

constexpr uint32_t kQ4_1 = 3, kQ8_0 = 8;

struct Subject {
  const char* architecture;
  testing::TinyTensors (*write)(const std::string& folder, uint64_t seed);
};
void PrintTo(const Subject& subject, std::ostream* out) {
  *out << subject.architecture;
}

std::vector<float> LogitsOf(LanguageModel& model) {
  const std::vector<TokenId> tokens = {72, 101, 108, 108, 111, 32, 119, 111};
  const std::vector<int32_t> parents = {-1, 0, 1, 2, 3, 4, 5, 6};
  const SequenceRows rows = {.cache = model.NewSequence(),
                             .tokens = tokens,
                             .parents = parents,
                             .num_logit_rows = 8};
  const auto logits = model.Forward({&rows, 1});
  EXPECT_TRUE(logits.ok()) << logits.status();
  std::vector<float> all;
  for (int64_t row = 0; row < 8; ++row) {
    const auto values = (*logits)->Row(row);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

class GgufModelTest : public ::testing::TestWithParam<Subject> {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(::testing::TempDir(), "/gguf_model_test_",
                           GetParam().architecture);
    tensors_ = GetParam().write(folder_, /*seed=*/3);
    path_ = folder_ + "/model.gguf";
    file_ = testing::TinyGguf(GetParam().architecture, tensors_);
    testing::WriteBytes(path_, file_.Bytes());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static std::unique_ptr<LanguageModel> Load(
      const std::string& path, const std::string& backend,
      ComputeDType dtype = ComputeDType::kFloat32) {
    auto model = LoadModel({.folder = path,
                            .compute_dtype = dtype,
                            .threads = 1,
                            .backend = backend});
    EXPECT_TRUE(model.ok()) << path << ": " << model.status();
    return *std::move(model);
  }

  void ExpectTheFoldersModel(const std::string& backend, ComputeDType dtype) {
    SCOPED_TRACE(backend + " " + NameOf(dtype));
    const auto folder = Load(folder_, backend, dtype);
    const auto file = Load(path_, backend, dtype);
    EXPECT_EQ(LogitsOf(*file), LogitsOf(*folder));
    EXPECT_EQ(file->info().fingerprint, folder->info().fingerprint);
    EXPECT_EQ(file->info().max_context, folder->info().max_context);
    EXPECT_EQ(file->info().config.eos_ids, folder->info().config.eos_ids);
  }

  std::string folder_, path_;
  testing::TinyTensors tensors_;
  GgufBytes file_;
};

TEST_P(GgufModelTest, PartsAreOneModel) {
  const std::string folder = folder_ + "/parts";
  std::filesystem::create_directories(folder);
  // Each has the data of all tensors, and half of the directory.
  GgufBytes first = file_, second = file_;
  first.pairs.push_back(testing::Pair("split.count", testing::kUint16,
                                      testing::Raw<uint16_t>(2)));
  const auto half = static_cast<int64_t>(file_.entries.size() / 2);
  first.entries.erase(first.entries.begin() + half, first.entries.end());
  second.entries.erase(second.entries.begin(), second.entries.begin() + half);
  second.pairs.clear();
  const std::string path = folder + "/m-00001-of-00002.gguf";
  testing::WriteBytes(path, first.Bytes());
  testing::WriteBytes(folder + "/m-00002-of-00002.gguf", second.Bytes());
  const auto whole = LogitsOf(*Load(path_, "native"));
  EXPECT_EQ(LogitsOf(*Load(path, "native")), whole);
  EXPECT_EQ(LogitsOf(*Load(folder, "native")), whole);

  std::filesystem::remove(folder + "/m-00002-of-00002.gguf");
  const auto missing = LoadModel({.folder = folder, .threads = 1});
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.status().message()),
              HasSubstr("m-00002-of-00002.gguf"));
}

TEST_P(GgufModelTest, IsTheFoldersModelToTheBit) {
  for (const std::string& backend : ModelBackends()) {
    for (ComputeDType dtype : kNativeComputeDTypes) {
      if (backend == "aten" && dtype > ComputeDType::kBFloat16) continue;
      ExpectTheFoldersModel(backend, dtype);
    }
  }
}

// These architectures are not libtorch's.
class NativeGgufModelTest : public GgufModelTest {};

TEST_P(NativeGgufModelTest, IsTheFoldersModelToTheBit) {
  for (ComputeDType dtype : kNativeComputeDTypes) {
    ExpectTheFoldersModel("native", dtype);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Architectures, NativeGgufModelTest,
    ::testing::Values(Subject{"qwen3moe", testing::WriteTinyQwen3Moe},
                      Subject{"gemma2", testing::WriteTinyGemma2},
                      Subject{"gemma3", testing::WriteTinyGemma3}),
    [](const auto& test) { return test.param.architecture; });

// Returns blocks of random bytes. Their scales are small, so their weights are
// small too.
std::string RandomBlocks(int64_t count, int64_t block_bytes, int64_t scales) {
  std::mt19937 random(5);
  std::string bytes;
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t k = 0; k < block_bytes; ++k) {
      const bool high = k < scales && k % 2 == 1;  // of a float16
      bytes.push_back(high ? '\x14' : static_cast<char>(random()));
    }
  }
  return bytes;
}

// Returns the tensors with rows of 96 as blocks.
GgufBytes WithBlocks(const std::string& architecture,
                     const testing::TinyTensors& tensors, uint32_t type) {
  testing::TinyTensors others = tensors;
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) {
    if (!absl::StrContains(name, "down_proj")) continue;
    others.erase(name);
    names.push_back(absl::StrCat("blk.", names.size(), ".ffn_down.weight"));
  }
  GgufBytes file = testing::TinyGguf(architecture, others);
  const int64_t block_bytes = type == kQ8_0 ? 34 : 20;
  for (const std::string& name : names) {
    file.Add(name, {96, 48}, type,
             RandomBlocks(48 * 3, block_bytes, type == kQ8_0 ? 2 : 4));
  }
  return file;
}

// libtorch computes with the widened weights.
TEST_P(GgufModelTest, BlocksAreTheirWeights) {
  for (uint32_t type : {kQ8_0, kQ4_1}) {
    SCOPED_TRACE(type);
    testing::WriteBytes(
        path_, WithBlocks(GetParam().architecture, tensors_, type).Bytes());
    const auto native = LogitsOf(*Load(path_, "native"));
    for (const std::string& backend : ModelBackends()) {
      const auto other = LogitsOf(*Load(path_, backend));
      for (size_t i = 0; i < native.size(); ++i) {
        ASSERT_NEAR(native[i], other[i], 2e-4) << i;
      }
    }
    // The logits are as close as language_model_test has it for int8.
    const auto rounded = LogitsOf(*Load(path_, "native", ComputeDType::kInt8));
    for (size_t row = 0; row < native.size(); row += testing::kTinyVocab) {
      double error = 0, size = 0;
      for (size_t i = row; i < row + testing::kTinyVocab; ++i) {
        error += std::pow(rounded[i] - native[i], 2);
        size += std::pow(native[i], 2);
      }
      EXPECT_LT(std::sqrt(error / size), 0.1) << row;
    }
  }
}

// In integer types, blocks and their floats are different weights.
TEST_P(GgufModelTest, FingerprintIsOfWhatIsComputed) {
  const auto fingerprint = [&](ComputeDType dtype) {
    return Load(path_, "native", dtype)->info().fingerprint;
  };
  const uint64_t floats = fingerprint(ComputeDType::kFloat32);
  testing::WriteBytes(
      path_, WithBlocks(GetParam().architecture, tensors_, kQ8_0).Bytes());
  const uint64_t blocks = fingerprint(ComputeDType::kFloat32);
  EXPECT_NE(blocks, floats);
  EXPECT_NE(fingerprint(ComputeDType::kBFloat16), blocks);
  EXPECT_NE(fingerprint(ComputeDType::kInt8), blocks);
}

TEST_P(GgufModelTest, AFolderWithOneFileIsThatFile) {
  std::filesystem::remove(folder_ + "/config.json");
  std::filesystem::remove(folder_ + "/model.safetensors");
  Load(folder_, "native");
  testing::WriteBytes(folder_ + "/second.gguf", file_.Bytes());
  const auto two = LoadModel({.folder = folder_});
  EXPECT_EQ(two.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(two.status().message(), HasSubstr("2 .gguf files"));
  const auto none = LoadModel({.folder = folder_ + "/none.gguf"});
  EXPECT_EQ(none.status().code(), absl::StatusCode::kNotFound);
}

TEST_P(GgufModelTest, LayersBeyondTheCountAreRefused) {
  GgufBytes file = file_;
  file.Add("blk.2.attn_norm.weight", {48}, 0, std::string(48 * 4, '\0'));
  testing::WriteBytes(path_, file.Bytes());
  const auto model = LoadModel({.folder = path_});
  EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(model.status().message(), HasSubstr("more layers"));
}

INSTANTIATE_TEST_SUITE_P(
    Architectures, GgufModelTest,
    ::testing::Values(Subject{"llama", testing::WriteTinyLlama},
                      Subject{"qwen2", testing::WriteTinyQwen2},
                      Subject{"qwen3", testing::WriteTinyQwen3}),
    [](const auto& test) { return test.param.architecture; });

}  // namespace
}  // namespace espalier::gguf_model_test
