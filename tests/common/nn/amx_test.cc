// If the CPU has AMX's tiles, they give the bits of the software model, on
// which the kernels are tested everywhere.

#include <string>
#include <vector>

#include "common/nn/packed_matrix.h"
#include "tests/common/nn/amx_model.h"
#include "tests/common/nn/attention_problem.h"
#include "tests/common/nn/kernel_testing.h"

namespace espalier::nn {
namespace {

class AmxTest : public KernelValues, public ::testing::Test {
 protected:
  void SetUp() override {
    for (const Kernels* kernels : UsableBackends()) {
      if (std::string(kernels->name) == "amx") cpu_ = kernels;
    }
    if (cpu_ == nullptr) GTEST_SKIP() << "this CPU has no AMX";
  }

  static std::vector<float> Multiply(const Kernels& kernels,
                                     const PackedMatrix& weights,
                                     const OperandRows& rows,
                                     int64_t num_rows) {
    std::vector<float> out(num_rows * weights.out_columns());
    kernels.linear(rows.In({.weights = weights.view(),
                            .panel_end = weights.panels(),
                            .out = out.data(),
                            .out_stride = weights.out_columns(),
                            .out_columns = weights.out_columns()}));
    return out;
  }

  const Kernels* cpu_ = nullptr;
};

TEST_F(AmxTest, ProductsHaveTheBitsOfTheModel) {
  constexpr int64_t kInputs = 200, kOutputs = 70;
  const std::vector<float> w = Random(kInputs * kOutputs);
  HugePageArena arena;
  ThreadPool pool({.threads = 1});
  const PackedMatrix packed =
      PackedMatrix::Pack({{.format = WeightSource::Format::kFloat32,
                           .data = reinterpret_cast<const std::byte*>(w.data()),
                           .outputs = kOutputs}},
                         {.inputs = kInputs}, arena, pool);
  for (OperandType type : {OperandType::kBf16, OperandType::kSplitBf16}) {
    for (float scale : {1.0f, 1e-19f, 1e18f}) {
      for (int64_t num_rows : {1, 16, 23, 40}) {
        const std::vector<float> x = Random(num_rows * kInputs, scale);
        const OperandRows rows(*cpu_, type, x, kInputs);
        EXPECT_EQ(Multiply(*cpu_, packed, rows, num_rows),
                  Multiply(AmxModelKernels(), packed, rows, num_rows))
            << num_rows << " rows, scale " << scale;
      }
    }
  }
}

// The exponential is the CPU's own on both sides only up to rounding.
TEST_F(AmxTest, AttentionIsTheModels) {
  for (KvType type : {KvType::kFloat32, KvType::kBf16}) {
    for (int64_t prefix : {0, 40, 64}) {
      AttentionProblem problem = RandomProblem(
          {.head_dim = 64, .prefix = prefix, .rows = 37}, random_);
      problem.type = type;
      const std::vector<float> cpu = Attend(*cpu_, problem, 0, 37);
      const std::vector<float> model =
          Attend(AmxModelKernels(), problem, 0, 37);
      for (size_t i = 0; i < cpu.size(); ++i) {
        ASSERT_NEAR(cpu[i], model[i], 1e-5) << prefix << " at " << i;
      }
    }
  }
}

}  // namespace
}  // namespace espalier::nn
