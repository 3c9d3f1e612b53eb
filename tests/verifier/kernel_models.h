// Small models on our own kernels: those of the CPU, and those of GPUs on the
// device that tests have.
#ifndef ESPALIER_TESTS_VERIFIER_KERNEL_MODELS_H_
#define ESPALIER_TESTS_VERIFIER_KERNEL_MODELS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/model/cuda/cuda_model.h"
#include "common/model/load/load_model.h"
#include "gtest/gtest.h"
#include "tests/testing/cuda_test_device.h"
#include "tests/testing/tiny_model.h"

namespace espalier::verifier {

struct KernelModel {
  std::string name;
  testing::TinyTensors (*write)(const std::string& folder, uint64_t seed);
  ModelOptions options;

  // Returns whether a pass takes a hundredth of a second.
  bool is_slow() const { return options.backend == "cuda"; }
};

inline std::vector<KernelModel> KernelModels() {
  std::vector<KernelModel> models = {
      {"native", testing::WriteTinyLlama, {.backend = "native"}},
      {"windows", testing::WriteTinyGemma3, {.backend = "native"}},
      {"softcaps", testing::WriteTinyGemma2, {.backend = "native"}},
      {"only_windows", testing::WriteTinyMistral, {.backend = "native"}},
      {"experts", testing::WriteTinyQwen3Moe, {.backend = "native"}}};
  if (!testing::HasCudaTestDevice()) return models;
  const ModelOptions cuda = {.device = testing::CudaTestDevice(),
                             .compute_dtype = ComputeDType::kBFloat16,
                             .kv_pool_bytes = 8 << 20,
                             .backend = "cuda"};
  if (!testing::kCudaTestsAreSlow) {
    const std::string nightly = testing::NightlyWhereEmulated();
    models.push_back({nightly + "cuda_llama", testing::WriteWideLlama, cuda});
    models.push_back({nightly + "cuda_qwen3", testing::WriteWideQwen3, cuda});
  }
  ModelOptions fp8 = cuda;
  fp8.compute_dtype = ComputeDType::kFp8;
  fp8.cuda_graphs = true;
  models.push_back({"cuda_qwen3_fp8", testing::WriteWideQwen3, fp8});
  return models;
}

// Writes the model into a folder of its own; returns its options.
inline ModelOptions WriteModel(const KernelModel& model,
                               const std::string& test) {
  ModelOptions options = model.options;
  options.folder = ::testing::TempDir() + "/" + test + "_" + model.name;
  model.write(options.folder, /*seed=*/1);
  return options;
}

// `device`: runs the kernels of a GPU; null: as the options say.
inline std::unique_ptr<LanguageModel> Load(
    const ModelOptions& options,
    std::shared_ptr<cuda::ComputeDevice> device = nullptr) {
  auto model = device == nullptr ? LoadModel(options)
                                 : LoadCudaModel(options, std::move(device));
  ESPALIER_CHECK(model.ok());
  return *std::move(model);
}

}  // namespace espalier::verifier

#endif  // ESPALIER_TESTS_VERIFIER_KERNEL_MODELS_H_
