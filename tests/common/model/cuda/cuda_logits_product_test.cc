// The product with a small vocabulary, which is summed in parts.
#include "common/cuda/product_shape.h"
#include "common/model/cuda/cuda_logits.h"
#include "tests/common/cuda/device_testing.h"

namespace espalier::cuda {
namespace {

class CudaLogitsProductTest : public DeviceTest {};
INSTANTIATE_FOR_DEVICES(CudaLogitsProductTest);

TEST_P(CudaLogitsProductTest, PartsAreAddedUp) {
  constexpr int kVocab = 320, kHidden = 512, kRows = 18;
  ASSERT_GT(ProductSplits(kVocab, kHidden), 1);
  Random random(5);
  const std::vector<uint16_t> weights = random.Bf16s(kVocab * kHidden);
  const std::vector<uint16_t> x = random.Bf16s(kRows * kHidden);
  ComputeDevice& device = Device();
  CudaLinear head = {.inputs = kHidden, .outputs = kVocab};
  head.weights = ArrayOf(device, PackWeights(weights, kVocab, kHidden));
  const auto rows = ArrayOf(device, PackActivations(x, kRows, kHidden));
  // One number more: what follows the logits stays.
  const int64_t size = int64_t{PaddedRows(kRows)} * kVocab;
  const auto logits = NanArray<float>(device, size + 1);
  CudaLogits product(head, device, device);
  ASSERT_TRUE(product.Reserve(kRows).ok());
  product.Launch(rows.data(), kRows, logits.data());
  const std::vector<float> got = ValuesOf(device, logits);
  RelativeError error;
  for (int row = 0; row < kRows; ++row) {
    for (int token = 0; token < kVocab; ++token) {
      double wanted = 0;
      for (int i = 0; i < kHidden; ++i) {
        wanted += double{Bf16ToFloat(x[row * kHidden + i])} *
                  Bf16ToFloat(weights[token * kHidden + i]);
      }
      error.Add(got[row * kVocab + token], wanted);
    }
  }
  EXPECT_LT(error.value(), 1e-6);
  EXPECT_TRUE(std::isnan(got[size]));
}

}  // namespace
}  // namespace espalier::cuda
