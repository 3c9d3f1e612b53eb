#include "common/model/cuda/cuda_weight_loader.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/bf16.h"
#include "common/base/status_macros.h"
#include "common/model/cuda/device_vectors.h"
#include "common/model/files/mapped_file.h"
#include "common/nn/weight_source.h"

namespace espalier {

using cuda::DeviceArray;
using cuda::kStripOutputs;
using cuda::Placing;

absl::StatusOr<unsigned char*> CudaWeightLoader::Conveyor::Next(int64_t bytes) {
  Buffer& buffer = buffers_[turn_];
  if (buffer.copied > 0) RETURN_IF_ERROR(device_.Wait(buffer.copied));
  if (buffer.memory.size() < bytes) {
    buffer.memory = DeviceArray<unsigned char>();
    ASSIGN_OR_RETURN(buffer.memory, DeviceArray<unsigned char>::Make(
                                        device_, bytes, cuda::Memory::kHost));
  }
  return buffer.memory.data();
}

void CudaWeightLoader::Conveyor::Send(unsigned char* to, int64_t bytes) {
  Buffer& buffer = buffers_[turn_];
  device_.Copy(to, buffer.memory.data(), bytes);
  buffer.copied = device_.Record();
  turn_ = 1 - turn_;
}

absl::StatusOr<DeviceArray<float>> CudaWeightLoader::Vectors(
    const std::vector<Part>& parts) {
  std::vector<float> values;
  for (const Part& part : parts) {
    read_.insert(part.name);
    ASSIGN_OR_RETURN(const TensorView view,
                     files_.Find(part.name, {part.size}));
    ASSIGN_OR_RETURN(const TensorValues vector,
                     TensorValues::Of(part.name, view));
    values.resize(values.size() + part.size);
    vector.Row(0, values.data() + values.size() - part.size);
  }
  bytes_ += static_cast<int64_t>(values.size() * sizeof(float));
  return SendFloats(device_, values);
}

absl::StatusOr<CudaLinear> CudaWeightLoader::Linear(
    const std::vector<Part>& parts, int64_t inputs, bool has_bias) {
  std::vector<Matrix> matrices;
  std::vector<Part> biases;
  int64_t outputs = 0;
  for (const Part& part : parts) {
    ASSIGN_OR_RETURN(Matrix matrix, Find(part, inputs));
    matrix.first_output = outputs;
    matrices.push_back(matrix);
    biases.push_back({part.name + ".bias", part.size});
    outputs += part.size;
  }
  ASSIGN_OR_RETURN(CudaLinear linear, Pack(matrices, outputs, inputs));
  if (has_bias) {
    ASSIGN_OR_RETURN(linear.bias, Vectors(biases));
  }
  return linear;
}
absl::StatusOr<CudaLinear> CudaWeightLoader::Gated(const Part& gates,
                                                   const Part& values,
                                                   int64_t inputs) {
  std::vector<Matrix> matrices(2);
  ASSIGN_OR_RETURN(matrices[0], Find(gates, inputs));
  ASSIGN_OR_RETURN(matrices[1], Find(values, inputs));
  matrices[0].placing = Placing::kGates;
  matrices[1].placing = Placing::kGatedValues;
  return Pack(matrices, gates.size + values.size, inputs);
}

absl::StatusOr<CudaWeightLoader::Matrix> CudaWeightLoader::Find(
    const Part& part, int64_t inputs) {
  const std::string name = part.name + ".weight";
  read_.insert(name);
  Matrix matrix;
  ASSIGN_OR_RETURN(matrix.view, files_.Find(name, {part.size, inputs}));
  ASSIGN_OR_RETURN(matrix.values, TensorValues::Of(name, matrix.view));
  return matrix;
}

absl::StatusOr<CudaLinear> CudaWeightLoader::Rows(
    const RowsOf& matrix, absl::Span<const TokenId> rows) {
  ASSIGN_OR_RETURN(const Matrix whole,
                   Find({matrix.name, matrix.rows}, matrix.inputs));
  if (whole.view.dtype == DType::kRandom) {
    return absl::UnimplementedError(
        absl::StrCat("some rows of ", matrix.name, " with random weights"));
  }
  ASSIGN_OR_RETURN(CudaLinear linear,
                   NewLinear(std::ssize(rows), matrix.inputs));
  std::vector<Row> wanted(linear.outputs);
  for (size_t i = 0; i < rows.size(); ++i) {
    wanted[i] = {&*whole.values, rows[i]};
  }
  RETURN_IF_ERROR(PackStrips(wanted, linear));
  DropPages(whole.view.data);
  return linear;
}

absl::Status CudaWeightLoader::CheckAllRead() const {
  for (const auto& [name, tensor] : files_.tensors()) {
    if (read_.count(name) == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", name, " is not part of the layout"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<CudaLinear> CudaWeightLoader::NewLinear(int64_t outputs,
                                                       int64_t inputs) {
  const int64_t strips = (outputs + kStripOutputs - 1) / kStripOutputs;
  CudaLinear linear = {.inputs = static_cast<int>(inputs),
                       .outputs = static_cast<int>(strips * kStripOutputs)};
  ASSIGN_OR_RETURN(linear.weights,
                   DeviceArray<unsigned char>::Make(
                       device_, strips * kStripOutputs * inputs * 2));
  bytes_ += linear.weights.size();
  return linear;
}

absl::StatusOr<CudaLinear> CudaWeightLoader::Pack(
    const std::vector<Matrix>& matrices, int64_t outputs, int64_t inputs) {
  ASSIGN_OR_RETURN(CudaLinear linear, NewLinear(outputs, inputs));
  if (matrices[0].view.dtype == DType::kRandom) {
    MakeUp(matrices, linear);
    return linear;
  }
  RETURN_IF_ERROR(PackStrips(RowsByOutput(matrices, linear.outputs), linear));
  for (const Matrix& matrix : matrices) DropPages(matrix.view.data);
  return linear;
}

// Random weights, by the device.
void CudaWeightLoader::MakeUp(const std::vector<Matrix>& matrices,
                              const CudaLinear& linear) {
  for (const Matrix& matrix : matrices) {
    const auto rows = static_cast<int>(matrix.values->rows());
    const bool is_last = &matrix == &matrices.back();
    const auto first = static_cast<int>(matrix.first_output);
    device_.Launch(cuda::RandomWeightsArgs{
        .seed = matrix.view.seed,
        .scale = nn::RandomScale(linear.inputs),
        .rows = rows,
        .outputs = is_last && matrix.placing == Placing::kInOrder
                       ? linear.outputs - first
                       : rows,
        .inputs = linear.inputs,
        .placing = matrix.placing,
        .first_output = first,
        .out = linear.weights.data()});
  }
}

std::vector<CudaWeightLoader::Row> CudaWeightLoader::RowsByOutput(
    const std::vector<Matrix>& matrices, int64_t outputs) {
  std::vector<Row> rows(outputs);
  for (const Matrix& matrix : matrices) {
    for (int64_t i = 0; i < matrix.values->rows(); ++i) {
      rows[matrix.first_output +
           cuda::OutputPlace(matrix.placing, static_cast<uint32_t>(i))] = {
          &*matrix.values, i};
    }
  }
  return rows;
}

// Strip by strip, some megabytes at a time.
absl::Status CudaWeightLoader::PackStrips(const std::vector<Row>& rows,
                                          const CudaLinear& linear) {
  const int64_t strips = linear.outputs / kStripOutputs;
  const int64_t strip_bytes = kStripOutputs * int64_t{linear.inputs} * 2;
  const int64_t at_once = std::max<int64_t>(1, (16 << 20) / strip_bytes);
  for (int64_t first = 0; first < strips; first += at_once) {
    const int64_t count = std::min(at_once, strips - first);
    ASSIGN_OR_RETURN(unsigned char* const packed,
                     conveyor_.Next(count * strip_bytes));
    pool_.ParallelFor(count, /*grain=*/1,
                      [&](const nn::ThreadPool::Chunk& chunk) {
                        for (int64_t i = chunk.begin * kStripOutputs;
                             i < chunk.end * kStripOutputs; ++i) {
                          PackRow(rows[first * kStripOutputs + i],
                                  static_cast<uint32_t>(linear.inputs),
                                  static_cast<uint32_t>(i), packed);
                        }
                      });
    conveyor_.Send(linear.weights.data() + first * strip_bytes,
                   count * strip_bytes);
  }
  return absl::OkStatus();
}

// In pieces of 8 numbers, which a tile keeps together.
void CudaWeightLoader::PackRow(const Row& row, uint32_t inputs, uint32_t output,
                               unsigned char* packed) {
  std::vector<uint16_t> rounded;
  const void* from = nullptr;
  if (row.values == nullptr) {
    rounded.assign(inputs, 0);
  } else if (row.values->format() == TensorValues::Format::kBf16) {
    from = row.values->Bytes(row.row).data();
  } else {
    std::vector<float> wide(inputs);
    row.values->Row(row.row, wide.data());
    rounded.resize(inputs);
    std::transform(wide.begin(), wide.end(), rounded.begin(), FloatToBf16);
  }
  if (from == nullptr) from = rounded.data();
  constexpr uint32_t kPiece = 8;
  for (uint32_t i = 0; i < inputs; i += kPiece) {
    std::memcpy(packed + cuda::WeightPlace(inputs, output, i),
                static_cast<const uint16_t*>(from) + i,
                kPiece * sizeof(uint16_t));
  }
}

}  // namespace espalier
