#include "verifier/verifier_builder.h"

#include <filesystem>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/tiny_model.h"

namespace espalier::verifier {
namespace {

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

}  // namespace
}  // namespace espalier::verifier
