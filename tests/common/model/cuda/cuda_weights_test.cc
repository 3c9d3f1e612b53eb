#include "common/model/cuda/cuda_weights.h"

#include <unistd.h>

#include <memory>
#include <string>

#include "common/cuda/emulated_device.h"
#include "common/model/cuda/cuda_weight_loader.h"
#include "gtest/gtest.h"
#include "tests/testing/tiny_model.h"

namespace espalier {
namespace {

class CudaWeightsTest : public ::testing::Test {
 protected:
  CudaWeightsTest() {
    const std::string folder =
        ::testing::TempDir() + "cuda_weights_" + std::to_string(getpid());
    testing::WriteWideLlama(folder);
    config_ = *ReadModelConfig(folder);
    files_ = std::make_unique<WeightFiles>(
        *WeightFiles::Open(folder, /*random_seed=*/1));
  }

  ModelConfig config_;
  std::unique_ptr<WeightFiles> files_;
  cuda::EmulatedDevice device_{{.seed = 1}};
  nn::ThreadPool pool_{{.threads = 1}};
};

TEST_F(CudaWeightsTest, AHeadThatIsNotTheTableIsApartFromIt) {
  for (bool is_tied : {false, true}) {
    for (CudaWeightType head : {CudaWeightType::kBf16, CudaWeightType::kE4m3}) {
      config_.tied_head = is_tied;
      const auto weights =
          LoadCudaWeights(config_, *files_, device_, pool_,
                          {.layers = CudaWeightType::kE4m3, .head = head});
      ASSERT_TRUE(weights.ok()) << weights.status();
      EXPECT_EQ(weights->tokens.type, CudaWeightType::kBf16);
      EXPECT_EQ(weights->head_or_tokens().type, head);
      EXPECT_EQ(&weights->head_or_tokens() == &weights->tokens,
                is_tied && head == CudaWeightType::kBf16);
      EXPECT_EQ(weights->head_or_tokens().outputs, weights->tokens.outputs);
      EXPECT_EQ(weights->layers[0].qkv.type, CudaWeightType::kE4m3);
    }
  }
}

// The product has the keys' and values' weights of each layer, in turn.
TEST_F(CudaWeightsTest, KeysAndValuesOfAllLayersAreTheLayers) {
  CudaWeightLoader loader(*files_, device_, pool_, CudaWeightType::kBf16);
  const auto kv = LoadCudaKv(config_, "model.layers.", loader);
  ASSERT_TRUE(kv.ok()) << kv.status();
  const auto bytes_of = [&](const CudaLinear& linear) {
    std::vector<unsigned char> bytes(linear.weights.size());
    linear.weights.Read(0, absl::MakeSpan(bytes));
    EXPECT_TRUE(device_.Wait(device_.Record()).ok());
    return bytes;
  };
  const std::vector<unsigned char> all = bytes_of(kv->product);
  auto at = all.begin();
  for (int64_t i = 0; i < config_.num_layers; ++i) {
    const auto layer = LoadCudaLayer(
        config_, i, "model.layers." + std::to_string(i) + ".", loader);
    ASSERT_TRUE(layer.ok()) << layer.status();
    const std::vector<unsigned char> qkv = bytes_of(layer->qkv);
    const int64_t queries =
        2 * config_.num_heads * config_.head_dim * config_.hidden_size;
    ASSERT_LE(std::ssize(qkv) - queries, all.end() - at);
    EXPECT_TRUE(std::equal(qkv.begin() + queries, qkv.end(), at)) << i;
    at += std::ssize(qkv) - queries;
  }
  EXPECT_EQ(at, all.end());
}

}  // namespace
}  // namespace espalier
