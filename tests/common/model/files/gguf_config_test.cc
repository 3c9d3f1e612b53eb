#include "common/model/files/gguf_config.h"

#include <filesystem>
#include <functional>
#include <random>

#include "common/model/files/tensor_values.h"
#include "common/model/files/weight_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/tiny_gguf.h"

namespace espalier {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::GgufBytes;
using ::testing::HasSubstr;
using testing::kFloat32;
using testing::kString;
using testing::kUint32;
using testing::Pair;
using testing::Raw;
using testing::Str;

class GgufConfigTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "/gguf_config_test_" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    tensors_ = testing::WriteTinyLlama(folder_);
    path_ = folder_ + "/model.gguf";
    file_ = testing::TinyGguf("llama", tensors_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  absl::StatusOr<ModelConfig> Read() const {
    testing::WriteBytes(path_, file_.Bytes());
    return ReadModelConfig(path_);
  }

  // Sets a field, in the place of its value where it has one.
  void Set(const std::string& key, uint32_t type, const std::string& value) {
    std::erase_if(file_.pairs, [&](const std::string& pair) {
      return pair.rfind(Str(key), 0) == 0;
    });
    file_.pairs.push_back(Pair(key, type, value));
  }

  void ExpectError(absl::StatusCode code, const std::string& text) const {
    const absl::Status status = Read().status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(status.message(), AllOf(HasSubstr(path_), HasSubstr(text)));
  }

  std::string folder_, path_;
  testing::TinyTensors tensors_;
  GgufBytes file_;
};

TEST_F(GgufConfigTest, SaysWhatTheFolderSays) {
  const auto file = Read();
  ASSERT_TRUE(file.ok()) << file.status();
  const auto folder = ReadModelConfig(folder_);
  ASSERT_TRUE(folder.ok()) << folder.status();
  EXPECT_EQ(file->num_layers, folder->num_layers);
  EXPECT_EQ(file->hidden_size, folder->hidden_size);
  EXPECT_EQ(file->num_heads, folder->num_heads);
  EXPECT_EQ(file->num_kv_heads, folder->num_kv_heads);
  EXPECT_EQ(file->head_dim, folder->head_dim);
  EXPECT_EQ(file->layers, folder->layers);
  EXPECT_EQ(file->vocab_size, folder->vocab_size);
  EXPECT_EQ(file->max_positions, folder->max_positions);
  EXPECT_EQ(static_cast<float>(file->norm_epsilon),
            static_cast<float>(folder->norm_epsilon));
  EXPECT_EQ(RotaryFrequencies(*file), RotaryFrequencies(*folder));
  EXPECT_EQ(file->tied_head, folder->tied_head);
  EXPECT_EQ(file->eos_ids, folder->eos_ids);
}

TEST_F(GgufConfigTest, ReadsEveryEndToken) {
  Set("tokenizer.ggml.eot_token_id", kUint32, Raw<uint32_t>(3));
  Set("tokenizer.ggml.eom_token_id", kUint32, Raw<uint32_t>(5));
  EXPECT_THAT(Read()->eos_ids, ElementsAre(testing::kTinyImEnd, 3, 5));
  Set("tokenizer.ggml.eot_token_id", kUint32, Raw<uint32_t>(258));
  ExpectError(absl::StatusCode::kInvalidArgument,
              "tokenizer.ggml.eot_token_id is 258, not in 0 .. 257");
}

TEST_F(GgufConfigTest, RotaryFactorsDivideFrequencies) {
  const std::vector<double> plain = RotaryFrequencies(*Read());
  file_.Add("rope_freqs.weight", {4}, 0,
            Raw(1.0f) + Raw(1.0f) + Raw(2.0f) + Raw(8.0f));
  const auto config = Read();
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_THAT(RotaryFrequencies(*config),
              ElementsAre(plain[0], plain[1], plain[2] / 2, plain[3] / 8));
}

TEST_F(GgufConfigTest, ReadsRotaryScalings) {
  const std::vector<double> plain = RotaryFrequencies(*Read());
  Set("llama.rope.scaling.factor", kFloat32, Raw(4.0f));
  EXPECT_DOUBLE_EQ(RotaryFrequencies(*Read())[0], plain[0] / 4);
  Set("llama.rope.scaling.type", kString, Str("none"));
  EXPECT_EQ(RotaryFrequencies(*Read()), plain);
  Set("llama.rope.scaling.type", kString, Str("yarn"));
  Set("llama.rope.scaling.original_context_length", kUint32,
      Raw<uint32_t>(128));
  const auto yarn = Read();
  ASSERT_TRUE(yarn.ok()) << yarn.status();
  EXPECT_DOUBLE_EQ(RotaryScale(*yarn), YarnAttentionFactor(4));
  EXPECT_EQ(RotaryFrequencies(*yarn),
            ScaledFrequencies({.kind = RopeScaling::Kind::kYarn,
                               .factor = 4,
                               .original_max_positions = 128},
                              yarn->rotary[0].theta, yarn->head_dim));
}

TEST_F(GgufConfigTest, AWindowThatEveryTextFitsIntoIsNone) {
  Set("llama.attention.sliding_window", kUint32, Raw<uint32_t>(4096));
  EXPECT_TRUE(Read().ok()) << Read().status();
}

TEST_F(GgufConfigTest, ErrorsNameTheFieldAndItsLimit) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  constexpr auto kUnknown = absl::StatusCode::kUnimplemented;
  const GgufBytes good = file_;
  const auto expect = [&](const std::string& key, uint32_t type,
                          const std::string& value, absl::StatusCode code,
                          const std::string& text) {
    SCOPED_TRACE(key);
    file_ = good;
    Set(key, type, value);
    ExpectError(code, text);
  };
  expect("general.architecture", kString, Str("mamba"), kUnknown,
         "\"mamba\" is not implemented; known: gemma2, gemma3, llama, olmo2, "
         "qwen2, qwen3, qwen3moe, smollm3");
  expect("llama.block_count", kUint32, Raw<uint32_t>(0), kInvalid,
         "llama.block_count: must be an integer of 1 .. ");
  expect("llama.embedding_length", kFloat32, Raw(48.0f), kInvalid,
         "llama.embedding_length");
  expect("llama.attention.head_count_kv", kUint32, Raw<uint32_t>(4), kInvalid,
         "must divide attention.head_count");
  expect("llama.attention.key_length", kUint32, Raw<uint32_t>(7), kInvalid,
         "must be even");
  expect("llama.rope.dimension_count", kUint32, Raw<uint32_t>(4), kInvalid,
         "must be the heads' size, 8");
  expect("llama.attention.layer_norm_rms_epsilon", kFloat32, Raw(0.0f),
         kInvalid, "must be a number above 0");
  for (const char* other : {"cohere2", "phi3", "qwen2moe"}) {
    expect("general.architecture", kString, Str(other), kUnknown, other);
  }
  expect("llama.rope.scaling.type", kString, Str("longrope"), kUnknown,
         "llama.rope.scaling.type \"longrope\"");
  expect("llama.rope.scaling.attn_factor", kFloat32, Raw(2.0f), kUnknown,
         "llama.rope.scaling.attn_factor");
  expect("llama.attention.sliding_window", kUint32, Raw<uint32_t>(64), kUnknown,
         "llama.attention.sliding_window 64 below context_length");
  expect("llama.expert_count", kUint32, Raw<uint32_t>(8), kUnknown,
         "llama.expert_count 8");
  expect("split.count", kUint32, Raw<uint32_t>(3), kInvalid,
         "split.count is 3: the path must be that of the first of at most "
         "99999 parts and end with -00001-of-00003.gguf");
}

TEST_F(GgufConfigTest, TensorsThatAreNotPartOfTheModelAreRefused) {
  const GgufBytes good = file_;
  for (const char* name : {"blk.0.attn_sub_norm.weight", "blk.0.attn_q.scale",
                           "blk.00.attn_q.bias", "blk.1.attn_q.bias",
                           "blk.0.attn_q_norm.weight", "blk.", "extra"}) {
    SCOPED_TRACE(name);
    file_ = good;
    file_.Add(name, {48}, 0, std::string(48 * 4, '\0'));
    testing::WriteBytes(path_, file_.Bytes());
    const absl::Status status = WeightFiles::Open(path_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), AllOf(HasSubstr(path_), HasSubstr(name),
                                        HasSubstr("is not part of")));
  }
}

TEST_F(GgufConfigTest, HeadsOfOddSizeCannotBeInterleaved) {
  file_.entries.clear();
  file_.data.clear();
  file_.Add("token_embd.weight", {48, 258}, 0, std::string(48 * 258 * 4, '\0'));
  file_.Add("blk.0.attn_q.weight", {48, 42}, 0, std::string(48 * 42 * 4, '\0'));
  testing::WriteBytes(path_, file_.Bytes());
  const absl::Status status = WeightFiles::Open(path_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("6 heads of an even size"));
}

// Rows and elements of interleaved heads are in the model's order.
TEST_F(GgufConfigTest, RowsAreThoseOfTheFolder) {
  testing::WriteBytes(path_, file_.Bytes());
  const auto weights = WeightFiles::Open(path_);
  ASSERT_TRUE(weights.ok()) << weights.status();
  for (const auto& [name, tensor] : tensors_) {
    SCOPED_TRACE(name);
    const auto view = weights->Find(name, tensor.shape);
    ASSERT_TRUE(view.ok()) << view.status();
    const auto values = TensorValues::Of(name, *view);
    ASSERT_TRUE(values.ok()) << values.status();
    std::vector<float> all(tensor.values.size());
    for (int64_t row = 0; row < values->rows(); ++row) {
      values->Row(row, all.data() + row * values->columns());
    }
    EXPECT_EQ(all, tensor.values);
  }
}

// Any file is read or refused; what is read has sound views.
TEST_F(GgufConfigTest, MutatedFilesNeverCrash) {
  const std::string good = file_.Bytes();
  const size_t metadata = good.size() - file_.data.size();
  std::mt19937 random(11);
  int refused = 0, read = 0;
  for (int i = 0; i < 1500; ++i) {
    std::string bytes = good;
    for (int change = 0; change < 1 + i % 3; ++change) {
      bytes[random() % metadata] ^= static_cast<char>(1 << random() % 8);
    }
    testing::WriteBytes(path_, bytes);
    const auto config = ReadModelConfig(path_);
    const auto weights = WeightFiles::Open(path_);
    EXPECT_TRUE(config.ok() || !weights.ok());
    (weights.ok() ? read : refused) += 1;
    if (!weights.ok()) continue;
    for (const auto& [name, view] : weights->tensors()) {
      const auto values = TensorValues::Of(name, view);
      if (!values.ok() || values->rows() < 1) continue;
      std::vector<float> row(values->columns());
      values->Row(values->rows() - 1, row.data());
    }
  }
  EXPECT_GT(refused, 100);
  EXPECT_GT(read, 100);
}

}  // namespace
}  // namespace espalier
