#ifndef ESPALIER_COMMON_MODEL_CUDA_CUDA_WEIGHT_LOADER_H_
#define ESPALIER_COMMON_MODEL_CUDA_CUDA_WEIGHT_LOADER_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/cuda/device_array.h"
#include "common/cuda/layout.h"
#include "common/model/cuda/cuda_weights.h"
#include "common/model/files/tensor_values.h"
#include "common/model/files/weight_files.h"
#include "common/nn/thread_pool.h"
#include "common/speculation/types.h"

namespace espalier {

// Brings tensors to a device, packed as products read them. The threads of a
// pool pack what files hold, and drop its pages; random weights are made by the
// device. Errors are those of LoadCudaWeights. One thread.
class CudaWeightLoader {
 public:
  // `type`: of products with no vocabulary. The references must outlive this
  // object.
  CudaWeightLoader(const WeightFiles& files, cuda::ComputeDevice& device,
                   nn::ThreadPool& pool, CudaWeightType type)
      : files_(files),
        device_(device),
        pool_(pool),
        type_(type),
        conveyor_(device) {}

  // A tensor; of a matrix the name without ".weight".
  struct Part {
    std::string name;
    int64_t size = 0;  // elements, or outputs
  };
  // Tensors of one dimension, one after another.
  absl::StatusOr<cuda::DeviceArray<float>> Vectors(
      const std::vector<Part>& parts);

  // Loads a product whose outputs are those of the parts, one after another.
  absl::StatusOr<CudaLinear> Linear(const std::vector<Part>& parts,
                                    int64_t inputs, bool has_bias);
  // Loads a token table, which has to be bf16, or the product with one.
  absl::StatusOr<CudaLinear> Vocabulary(const Part& table, int64_t inputs,
                                        CudaWeightType type);
  // The given rows of a matrix, as a product of their own. `name`: as of a
  // part.
  struct RowsOf {
    std::string name;
    int64_t rows = 0;  // of the whole matrix
    int64_t inputs = 0;
  };
  absl::StatusOr<CudaLinear> Rows(const RowsOf& matrix,
                                  absl::Span<const TokenId> rows,
                                  CudaWeightType type);

  // Loads gated products (cuda::GatePlace), one after another. REQUIRES: as
  // many gates as values in each.
  struct GatedPart {
    Part gates, values;
  };
  absl::StatusOr<CudaLinear> Gated(const std::vector<GatedPart>& parts,
                                   int64_t inputs);

  // Loads a matrix as it is: [size, inputs] float32.
  absl::StatusOr<cuda::DeviceArray<float>> Floats(const Part& part,
                                                  int64_t inputs);

  int64_t bytes() const { return bytes_; }  // brought to the device so far

  bool Has(const std::string& name) const { return files_.Has(name); }
  // INVALID_ARGUMENT names a tensor of the files that was not read.
  absl::Status CheckAllRead() const;
  // Marks an unused tensor as read.
  void Ignore(const std::string& name) { read_.insert(name); }

 private:
  struct Matrix {
    std::optional<TensorValues> values;
    TensorView view;
    cuda::Placing placing = cuda::Placing::kInOrder;
    int64_t first_output = 0;  // of the product
  };
  // A row of a matrix; null: zeros.
  struct Row {
    const TensorValues* values = nullptr;
    int64_t row = 0;
  };

  // Packed bytes on their way to the device, in two buffers: while one is
  // copied, the other is filled.
  class Conveyor {
   public:
    explicit Conveyor(cuda::ComputeDevice& device) : device_(device) {}
    ~Conveyor() { static_cast<void>(device_.Wait(device_.Record())); }

    // The next buffer, of at least so many bytes, once the copy from it is
    // done.
    absl::StatusOr<unsigned char*> Next(int64_t bytes);
    // Copies what that buffer holds.
    void Send(unsigned char* to, int64_t bytes);

   private:
    struct Buffer {
      cuda::DeviceArray<unsigned char> memory;
      int64_t copied = 0;  // event; 0: none
    };

    cuda::ComputeDevice& device_;
    Buffer buffers_[2];
    int turn_ = 0;
  };

  absl::StatusOr<Matrix> Find(const Part& part, int64_t inputs);
  absl::StatusOr<CudaLinear> NewLinear(int64_t outputs, int64_t inputs,
                                       CudaWeightType type);
  absl::StatusOr<CudaLinear> Pack(const std::vector<Matrix>& matrices,
                                  int64_t outputs, int64_t inputs,
                                  CudaWeightType type);
  absl::Status MakeUp(const std::vector<Matrix>& matrices, CudaLinear& linear);
  static std::vector<Row> RowsByOutput(const std::vector<Matrix>& matrices,
                                       int64_t outputs);
  static void ReadBf16(const Row& row, absl::Span<uint16_t> out);
  absl::Status PackStrips(const std::vector<Row>& rows, CudaLinear& linear);
  absl::Status SendScales(const std::vector<float>& scales, CudaLinear& linear);

  const WeightFiles& files_;
  cuda::ComputeDevice& device_;
  nn::ThreadPool& pool_;
  const CudaWeightType type_;
  Conveyor conveyor_;
  std::set<std::string> read_;
  int64_t bytes_ = 0;
};

}  // namespace espalier

#endif  // ESPALIER_COMMON_MODEL_CUDA_CUDA_WEIGHT_LOADER_H_
