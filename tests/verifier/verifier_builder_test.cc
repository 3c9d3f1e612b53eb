#include "verifier/verifier_builder.h"

#include <filesystem>
#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/tiny_model.h"

namespace espalier::verifier {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(VerifierBuilderTest, ServesRandomWeightsInTheShapeOfAModel) {
  const std::string folder = ::testing::TempDir() + "/verifier_builder_test";
  testing::WriteTinyLlama(folder);
  std::filesystem::remove(folder + "/model.safetensors");
  v1::VerifierEngineConfig config;
  config.set_model(folder);
  config.set_threads(1);
  prometheus::Registry without, with;
  EXPECT_EQ(BuildVerifier(config, without).status().code(),
            absl::StatusCode::kNotFound);
  config.set_random_weights(0);
  const auto engine = BuildVerifier(config, with);
  ASSERT_TRUE(engine.ok()) << engine.status();
}

TEST(VerifierBuilderTest, KvCacheTypeIsReadByName) {
  v1::VerifierEngineConfig config;
  EXPECT_EQ(ModelOptionsFrom(config)->kv_cache_type, std::nullopt);
  config.set_kv_cache_type("auto");
  EXPECT_EQ(ModelOptionsFrom(config)->kv_cache_type, std::nullopt);
  config.set_kv_cache_type("int8");
  EXPECT_EQ(ModelOptionsFrom(config)->kv_cache_type, nn::KvType::kInt8);
  config.set_kv_cache_type("int4");
  const absl::Status status = ModelOptionsFrom(config).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("engine.kv_cache_type"), HasSubstr("int8")));
}

TEST(VerifierBuilderTest, GraphsAreForGpus) {
  v1::VerifierEngineConfig config;
  for (const char* device : {"cuda", "emulated"}) {
    config.set_device(device);
    config.clear_cuda_graphs();
    EXPECT_FALSE(ModelOptionsFrom(config)->cuda_graphs);
    config.set_cuda_graphs(true);
    EXPECT_TRUE(ModelOptionsFrom(config)->cuda_graphs);
  }
  for (const char* device : {"", "cpu"}) {
    config.set_device(device);
    const absl::Status status = ModelOptionsFrom(config).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("engine.cuda_graphs"));
  }
}

}  // namespace
}  // namespace espalier::verifier
