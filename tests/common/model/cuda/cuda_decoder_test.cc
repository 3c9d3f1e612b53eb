#include "common/model/cuda/cuda_decoder.h"

#include <memory>
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
    decoder_ = std::make_unique<CudaDecoder>(config_, weights_, CudaAngles(1),
                                             device_, list_);
    ASSERT_TRUE(decoder_->Reserve(256, 256).ok());
  }

  // Returns the kernels of a pass over sequences with these prefixes and trees.
  std::vector<cuda::KernelArgs> KernelsOf(const std::vector<Part>& parts) {
    CudaPass pass(config_);
    for (const auto& [prefix, parents] : parts) {
      const int64_t rows = std::ssize(parents);
      const std::vector<int32_t> pages((prefix + rows + 63) / 64, 0);
      pass.Add(std::vector<TokenId>(rows, 1), BuildRowTree(parents, prefix),
               {{pages}}, rows);
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

  cuda::EmulatedDevice device_{{}};
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

}  // namespace
}  // namespace espalier
