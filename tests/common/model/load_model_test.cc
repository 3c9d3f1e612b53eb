#include "common/model/load/load_model.h"

#include <filesystem>
#include <fstream>
#include <optional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/cuda_test_device.h"
#include "tests/testing/tiny_model.h"

namespace espalier {
namespace {

using ::testing::HasSubstr;

class LoadModelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "/load_model_test_" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    tensors_ = testing::WriteTinyLlama(folder_);
  }

  void Rewrite() const {
    testing::WriteSafetensors(folder_ + "/model.safetensors", tensors_);
  }

  void ExpectError(const ModelOptions& options, absl::StatusCode code,
                   const std::string& text) const {
    const auto model = LoadModel(options);
    EXPECT_EQ(model.status().code(), code) << model.status();
    EXPECT_THAT(std::string(model.status().message()), HasSubstr(text));
  }

  std::string folder_;
  testing::TinyTensors tensors_;
};

TEST_F(LoadModelTest, SaysWhatItLoaded) {
  const auto model = LoadModel({.folder = folder_, .threads = 1});
  ASSERT_TRUE(model.ok()) << model.status();
  const ModelInfo& info = (*model)->info();
  EXPECT_EQ(info.config.vocab_size, testing::kTinyVocab);
  EXPECT_EQ(info.device, "cpu");
  EXPECT_EQ(info.compute_dtype, "float32");
  EXPECT_EQ(info.max_context, testing::kTinyMaxPositions);
  EXPECT_EQ(info.max_rows, 256);
  EXPECT_EQ(info.max_chain_rows, 256);  // of a CPU
  EXPECT_EQ(info.kv_bytes_per_token, 2 * 2 * 2 * 8 * 4);
  EXPECT_GT(info.weight_bytes, 0);
}

TEST_F(LoadModelTest, FingerprintIsOfWeightsAndOfHowTheyAreComputedWith) {
  const auto fingerprint = [&](ComputeDType dtype = ComputeDType::kFloat32) {
    const auto model =
        LoadModel({.folder = folder_, .compute_dtype = dtype, .threads = 1});
    EXPECT_TRUE(model.ok()) << model.status();
    return (*model)->info().fingerprint;
  };
  const uint64_t original = fingerprint();
  EXPECT_NE(original, 0);
  EXPECT_EQ(fingerprint(), original);
  EXPECT_NE(fingerprint(ComputeDType::kBFloat16), original);
  tensors_["model.layers.1.mlp.up_proj.weight"].values[0] += 1;
  Rewrite();
  EXPECT_NE(fingerprint(), original);
  testing::WriteTinyLlama(folder_, /*seed=*/2);
  EXPECT_NE(fingerprint(), original);
  testing::WriteTinyLlama(folder_);
  EXPECT_EQ(fingerprint(), original);
}

TEST_F(LoadModelTest, KvCacheTypeIsPartOfTheModel) {
  const auto info = [&](std::optional<nn::KvType> type) {
    const auto model = LoadModel({.folder = folder_,
                                  .compute_dtype = ComputeDType::kBFloat16,
                                  .threads = 1,
                                  .kv_cache_type = type,
                                  .backend = "native"});
    EXPECT_TRUE(model.ok()) << model.status();
    return (*model)->info();
  };
  const ModelInfo usual = info(std::nullopt);
  EXPECT_EQ(usual.kv_cache_type, "bfloat16");
  EXPECT_EQ(usual.kv_bytes_per_token, 2 * 2 * 2 * 8 * 2);
  EXPECT_EQ(info(nn::KvType::kBf16).fingerprint, usual.fingerprint);
  const ModelInfo small = info(nn::KvType::kInt8);
  EXPECT_EQ(small.kv_cache_type, "int8");
  EXPECT_EQ(small.kv_bytes_per_token, 2 * 2 * 2 * (8 + 4));  // and scales
  EXPECT_NE(small.fingerprint, usual.fingerprint);
  EXPECT_NE(info(nn::KvType::kFloat32).fingerprint, small.fingerprint);
}

TEST_F(LoadModelTest, KvCacheTypesAreOfTheNativeBackend) {
  const ModelOptions int8 = {.folder = folder_,
                             .kv_cache_type = nn::KvType::kInt8};
  for (const std::string& backend : ModelBackends()) {
    if (backend == "native") continue;
    ModelOptions options = int8;
    options.backend = backend;
    ExpectError(options, absl::StatusCode::kUnimplemented, "int8");
  }
  if (!testing::HasCudaTestDevice()) return;
  testing::WriteWideLlama(folder_, /*seed=*/1);
  ModelOptions options = int8;
  options.device = testing::CudaTestDevice();
  options.compute_dtype = ComputeDType::kBFloat16;
  ExpectError(options, absl::StatusCode::kUnimplemented, "K/V cache type int8");
}

TEST_F(LoadModelTest, LayersThatTheConfigDoesNotCountAreNamed) {
  tensors_["model.layers.2.mlp.up_proj.weight"] =
      tensors_["model.layers.1.mlp.up_proj.weight"];
  Rewrite();
  for (const std::string& backend : ModelBackends()) {
    ExpectError({.folder = folder_, .backend = backend},
                absl::StatusCode::kInvalidArgument, "num_hidden_layers is 2");
    ExpectError({.folder = folder_, .backend = backend},
                absl::StatusCode::kInvalidArgument,
                "model.layers.2.mlp.up_proj.weight");
  }
}

TEST_F(LoadModelTest, MissingFolderIsNotFound) {
  ExpectError({.folder = folder_ + "/none"}, absl::StatusCode::kNotFound,
              "none: there is no such file or folder");
}

TEST_F(LoadModelTest, MissingTensorIsNotFoundByName) {
  tensors_.erase("model.layers.1.mlp.up_proj.weight");
  Rewrite();
  ExpectError({.folder = folder_}, absl::StatusCode::kNotFound,
              "model.layers.1.mlp.up_proj.weight");
}

TEST_F(LoadModelTest, WrongShapeIsInvalidAndNamed) {
  tensors_["model.norm.weight"] = {.shape = {3}, .values = {1, 2, 3}};
  Rewrite();
  ExpectError({.folder = folder_}, absl::StatusCode::kInvalidArgument,
              "model.norm.weight");
}

TEST_F(LoadModelTest, TruncatedWeightsAreInvalid) {
  const std::string path = folder_ + "/model.safetensors";
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  ExpectError({.folder = folder_}, absl::StatusCode::kInvalidArgument, path);
}

TEST_F(LoadModelTest, UnknownDeviceListsTheKnownOnes) {
  ExpectError({.folder = folder_, .device = "tpu"},
              absl::StatusCode::kInvalidArgument, "cpu, cuda");
  ExpectError({.folder = folder_, .device = "cuda:x"},
              absl::StatusCode::kInvalidArgument, "cuda:x");
}

TEST_F(LoadModelTest, UnknownBackendsAndKernelsListTheKnownOnes) {
  ExpectError({.folder = folder_, .backend = "tvm"},
              absl::StatusCode::kInvalidArgument, "auto, native");
  ExpectError({.folder = folder_, .backend = "native", .cpu_kernels = "mmx"},
              absl::StatusCode::kInvalidArgument, "portable");
}

TEST_F(LoadModelTest, SaysWhatComputes) {
  for (const std::string& backend : ModelBackends()) {
    const auto model =
        LoadModel({.folder = folder_, .threads = 1, .backend = backend});
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_THAT((*model)->info().backend, HasSubstr(backend));
  }
}

TEST_F(LoadModelTest, NativeBackendIsForTheCpuOnly) {
  ExpectError({.folder = folder_, .device = "cuda", .backend = "native"},
              absl::StatusCode::kUnimplemented, "cpu");
}

TEST_F(LoadModelTest, Fp8IsForGpusOnly) {
  for (const std::string backend : {"auto", "native"}) {
    ExpectError({.folder = folder_,
                 .compute_dtype = ComputeDType::kFp8,
                 .backend = backend},
                absl::StatusCode::kUnimplemented, "fp8");
  }
}

TEST_F(LoadModelTest, PublishedFp8IsRefusedByName) {
  std::ifstream in(folder_ + "/config.json");
  std::string config{std::istreambuf_iterator<char>(in), {}};
  config.insert(config.find('{') + 1,
                R"("quantization_config": {"quant_method": "fp8"},)");
  std::ofstream(folder_ + "/config.json") << config;
  ExpectError({.folder = folder_}, absl::StatusCode::kUnimplemented,
              "quantization_config");
}

TEST_F(LoadModelTest, CudaBackendIsForGpusOnly) {
  ExpectError({.folder = folder_, .backend = "cuda"},
              absl::StatusCode::kFailedPrecondition,
              "does not run on the device \"cpu\"");
  ExpectError({.folder = folder_, .device = "cuda:99", .backend = "cuda"},
              absl::StatusCode::kFailedPrecondition, "cuda:99");
}

TEST_F(LoadModelTest, DeviceThatIsNotThereIsFailedPrecondition) {
  ExpectError({.folder = folder_, .device = "cuda:99"},
              absl::StatusCode::kFailedPrecondition, "cuda:99");
}

TEST_F(LoadModelTest, WrongOptionsAreNamed) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  ExpectError({.folder = folder_, .threads = -1}, kInvalid, "threads");
  ExpectError({.folder = folder_, .kv_pool_bytes = 1000}, kInvalid,
              "kv_pool_bytes");
  ExpectError({.folder = folder_, .max_context = -1}, kInvalid, "max_context");
  ExpectError({.folder = folder_, .max_rows = 0}, kInvalid, "max_rows");
  ExpectError({.folder = folder_, .max_chain_rows = 0}, kInvalid,
              "max_chain_rows");
}

}  // namespace
}  // namespace espalier
