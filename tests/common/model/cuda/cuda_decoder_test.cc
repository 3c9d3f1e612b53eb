#include "common/model/cuda/cuda_decoder.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "common/cuda/emulated_device.h"
#include "common/model/cuda/mailbox.h"
#include "common/model/files/weight_files.h"
#include "common/model/native/row_batch.h"
#include "gtest/gtest.h"
#include "tests/testing/tiny_model.h"

namespace espalier {
namespace {

// What would be launched.
class KernelList final : public cuda::KernelQueue {
 public:
  void Launch(const cuda::KernelArgs& args) override {
    kernels.push_back(args);
  }

  std::vector<cuda::KernelArgs> kernels;
};

struct Part {
  int64_t prefix = 0;
  std::vector<int32_t> parents;
};

class CudaDecoderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string folder = ::testing::TempDir() + "/cuda_decoder";
    testing::WriteWideLlama(folder, /*seed=*/1);
    config_ = *ReadModelConfig(folder);
    const auto files = WeightFiles::Open(folder, /*random_seed=*/1);
    ASSERT_TRUE(files.ok());
    nn::ThreadPool pool({.threads = 1});
    auto weights =
        LoadCudaWeights(config_, *files, device_, pool, /*types=*/{});
    ASSERT_TRUE(weights.ok()) << weights.status();
    weights_ = *std::move(weights);
    decoder_ = NewDecoder(device_);
  }

  std::unique_ptr<CudaDecoder> NewDecoder(cuda::ComputeDevice& device) {
    auto decoder = std::make_unique<CudaDecoder>(config_, weights_,
                                                 CudaAngles(1), device, list_);
    EXPECT_TRUE(decoder->Reserve(256, 256).ok());
    return decoder;
  }

  // Returns the kernels of a pass over sequences with these prefixes and trees.
  std::vector<cuda::KernelArgs> KernelsOf(const std::vector<Part>& parts) {
    CudaPass pass(config_);
    for (const auto& [prefix, parents] : parts) {
      const int64_t rows = std::ssize(parents);
      const std::vector<int32_t> pages((prefix + rows + 63) / 64, 0);
      if (IsChain(parents)) {
        pass.AddChain(std::vector<TokenId>(rows, 1), prefix, {{pages}}, rows);
      } else {
        pass.Add(std::vector<TokenId>(rows, 1), BuildRowTree(parents, prefix),
                 {{pages}}, rows);
      }
    }
    list_.kernels.clear();
    EXPECT_TRUE(requests_.Clear().ok());
    EXPECT_TRUE(decoder_->Describe(pass, requests_).ok());
    decoder_->Launch(pass, {});
    return list_.kernels;
  }

  static std::vector<int32_t> Star(int rows) {
    std::vector<int32_t> parents(rows, 0);
    parents[0] = -1;
    return parents;
  }
  static std::vector<int32_t> Chain(int rows) {
    std::vector<int32_t> parents(rows);
    for (int i = 0; i < rows; ++i) parents[i] = i - 1;
    return parents;
  }

  template <typename Args>
  static int64_t CountOf(const std::vector<cuda::KernelArgs>& kernels) {
    return std::count_if(kernels.begin(), kernels.end(),
                         [](const cuda::KernelArgs& args) {
                           return std::holds_alternative<Args>(args);
                         });
  }
  // Returns how many of the kernels are chains, without attention and with it.
  static int64_t Chains(const std::vector<cuda::KernelArgs>& kernels) {
    return CountOf<cuda::ChainArgs>(kernels);
  }
  static int64_t LayerChains(const std::vector<cuda::KernelArgs>& kernels) {
    return CountOf<cuda::LayerChainArgs>(kernels);
  }

  cuda::EmulatedDevice device_{{.resident_blocks = 0}};
  ModelConfig config_;
  CudaWeights weights_;
  KernelList list_;
  std::unique_ptr<CudaDecoder> decoder_;
  Mailbox requests_{device_};
};

TEST_F(CudaDecoderTest, KernelsAreToldTheSameWhateverTheFormOfATree) {
  const auto kernels = KernelsOf({{100, Star(40)}});
  EXPECT_TRUE(KernelsOf({{100, Chain(40)}}) == kernels);
  EXPECT_TRUE(KernelsOf({{95, Chain(40)}}) == kernels);
  EXPECT_FALSE(KernelsOf({{100, Star(41)}}) == kernels);
}

// 64 pages of both, then 66.
TEST_F(CudaDecoderTest, KernelsAreToldTheSameWhileTextsGrow) {
  const auto kernels = KernelsOf({{2000, Star(3)}, {2010, Star(2)}});
  EXPECT_TRUE(KernelsOf({{2060, Star(3)}, {2070, Star(2)}}) == kernels);
  // More chunks give more work.
  EXPECT_FALSE(KernelsOf({{2200, Star(3)}, {2070, Star(2)}}) == kernels);
}

// They have no paths, whose number grows with the square of their rows.
TEST_F(CudaDecoderTest, PromptsAreAttendedToAsChains) {
  const std::vector<int32_t> pages(10, 0);
  const auto with_chain = [&](int64_t rows) {
    CudaPass pass(config_);
    pass.AddChain(std::vector<TokenId>(rows, 1), 70, {{pages}}, 1);
    return pass;
  };
  const int64_t group = config_.num_heads / config_.num_kv_heads;
  for (int64_t rows : {81, 130, 512}) {
    const CudaPass pass = with_chain(rows);
    EXPECT_TRUE(pass.tree_items.empty());
    EXPECT_EQ(pass.chain_items.size(),
              static_cast<size_t>((rows * group + 63) / 64));
    EXPECT_TRUE(pass.paths.empty());
    EXPECT_EQ(pass.rows.back().slot, 70 + rows - 1);
    EXPECT_EQ(pass.rows.back().position, 70 + rows - 1);
    EXPECT_EQ(pass.rotated_rows.back().position, 70 + rows - 1);
    EXPECT_EQ(pass.num_logit_rows, 1);
    EXPECT_EQ(pass.logit_rows.back(), 0);
    EXPECT_EQ(pass.logit_rows[rows - 2], -1);
  }
  const CudaPass few = with_chain(80);
  EXPECT_EQ(few.tree_items.size(), 20);
  EXPECT_TRUE(few.chain_items.empty());
  EXPECT_EQ(few.paths.size(), 80 * 81 / 2);
}

TEST_F(CudaDecoderTest, TreesAreNotAttendedToAsChains) {
  CudaPass pass(config_);
  pass.Add(std::vector<TokenId>(130, 1), BuildRowTree(Star(130), 70),
           {{std::vector<int32_t>(8, 0)}}, 130);
  EXPECT_EQ(pass.tree_items.size(), 33);
  EXPECT_TRUE(pass.chain_items.empty());
}

// A chain that attends takes the place of Prepare and of attention as well.
// Where it cannot, they are launched before one that does not attend.
TEST_F(CudaDecoderTest, ChainsAttendWhereTheDeviceSaysSo) {
  cuda::EmulatedDevice chaining({.resident_blocks = 132});
  decoder_ = NewDecoder(chaining);
  const auto chained = KernelsOf({{100, Star(40)}});
  EXPECT_EQ(LayerChains(chained), 0);
  cuda::EmulatedDevice attending(
      {.resident_blocks = 132, .chains_attend = true});
  decoder_ = NewDecoder(attending);
  const auto attended = KernelsOf({{100, Star(40)}});
  EXPECT_EQ(LayerChains(attended), config_.num_layers);
  EXPECT_EQ(std::ssize(attended) + 2 * config_.num_layers, std::ssize(chained));
  EXPECT_TRUE(KernelsOf({{95, Chain(40)}}) == attended);
  const auto prompt = KernelsOf({{100, Chain(100)}});
  EXPECT_EQ(LayerChains(prompt), 0);
  EXPECT_EQ(Chains(prompt), config_.num_layers);
  decoder_ = nullptr;  // before its device
}

// A chain takes the place of six kernels, that of the last layer of four.
TEST_F(CudaDecoderTest, LayersAreChainsWhereTheDeviceHoldsThem) {
  const auto launched = KernelsOf({{100, Star(40)}});
  EXPECT_EQ(Chains(launched), 0);
  cuda::EmulatedDevice chaining({.resident_blocks = 132});
  decoder_ = NewDecoder(chaining);
  const auto chained = KernelsOf({{100, Star(40)}});
  EXPECT_EQ(Chains(chained), config_.num_layers);
  EXPECT_EQ(std::ssize(chained) + 5 * config_.num_layers - 2,
            std::ssize(launched));
  EXPECT_TRUE(KernelsOf({{95, Chain(40)}}) == chained);
  EXPECT_EQ(Chains(KernelsOf({{100, Star(144)}})), config_.num_layers);
  EXPECT_EQ(Chains(KernelsOf({{100, Star(145)}})), 0);
  decoder_ = nullptr;  // before its device
}

}  // namespace
}  // namespace espalier
