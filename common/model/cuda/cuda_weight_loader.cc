#include "common/model/cuda/cuda_weight_loader.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/bf16.h"
#include "common/base/status_macros.h"
#include "common/model/cuda/device_vectors.h"
#include "common/model/cuda/e4m3_row.h"
#include "common/model/files/mapped_file.h"
#include "common/nn/weight_source.h"

namespace espalier {

using cuda::DeviceArray;
using cuda::kStripOutputs;
using cuda::Placing;

namespace {

int64_t StripBytes(const CudaLinear& linear) {
  const int64_t numbers = int64_t{kStripOutputs} * linear.inputs;
  return linear.type == CudaWeightType::kE4m3 ? numbers : 2 * numbers;
}

// Packs pieces of 8 numbers, which a tile keeps together.
void PackBf16(absl::Span<const uint16_t> row, uint32_t output,
              unsigned char* packed) {
  constexpr uint32_t kPiece = 8;
  const auto inputs = static_cast<uint32_t>(row.size());
  for (uint32_t i = 0; i < inputs; i += kPiece) {
    std::memcpy(packed + cuda::WeightPlace(inputs, output, i), &row[i],
                kPiece * sizeof(uint16_t));
  }
}

// Returns the row's scale.
float PackE4m3(absl::Span<const uint16_t> row, uint32_t output,
               unsigned char* packed) {
  std::vector<uint8_t> codes(row.size());
  const float scale = RoundToE4m3(row, absl::MakeSpan(codes));
  const auto inputs = static_cast<uint32_t>(row.size());
  for (uint32_t i = 0; i < inputs; ++i) {
    packed[cuda::E4m3WeightPlace(inputs, output, i)] = codes[i];
  }
  return scale;
}

}  // namespace

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
  ASSIGN_OR_RETURN(CudaLinear linear, Pack(matrices, outputs, inputs, type_));
  if (has_bias) {
    ASSIGN_OR_RETURN(linear.bias, Vectors(biases));
  }
  return linear;
}

absl::StatusOr<CudaLinear> CudaWeightLoader::Vocabulary(const Part& table,
                                                        int64_t inputs,
                                                        CudaWeightType type) {
  std::vector<Matrix> matrices(1);
  ASSIGN_OR_RETURN(matrices[0], Find(table, inputs));
  return Pack(matrices, table.size, inputs, type);
}

absl::StatusOr<CudaLinear> CudaWeightLoader::Gated(
    const std::vector<GatedPart>& parts, int64_t inputs) {
  std::vector<Matrix> matrices;
  int64_t outputs = 0;
  for (const auto& [gates, values] : parts) {
    for (const Part* part : {&gates, &values}) {
      ASSIGN_OR_RETURN(Matrix matrix, Find(*part, inputs));
      matrix.placing = part == &gates ? Placing::kGates : Placing::kGatedValues;
      matrix.first_output = outputs;
      matrices.push_back(matrix);
    }
    outputs += gates.size + values.size;
  }
  return Pack(matrices, outputs, inputs, type_);
}

absl::StatusOr<DeviceArray<float>> CudaWeightLoader::Floats(const Part& part,
                                                            int64_t inputs) {
  ASSIGN_OR_RETURN(const Matrix matrix, Find(part, inputs));
  std::vector<float> values(part.size * inputs);
  for (int64_t row = 0; row < part.size; ++row) {
    matrix.values->Row(row, values.data() + row * inputs);
  }
  bytes_ += static_cast<int64_t>(values.size() * sizeof(float));
  return SendFloats(device_, values);
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
    const RowsOf& matrix, absl::Span<const TokenId> rows, CudaWeightType type) {
  ASSIGN_OR_RETURN(const Matrix whole,
                   Find({matrix.name, matrix.rows}, matrix.inputs));
  if (whole.view.dtype == DType::kRandom) {
    return absl::UnimplementedError(
        absl::StrCat("some rows of ", matrix.name, " with random weights"));
  }
  ASSIGN_OR_RETURN(CudaLinear linear,
                   NewLinear(std::ssize(rows), matrix.inputs, type));
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
                                                       int64_t inputs,
                                                       CudaWeightType type) {
  const int64_t strips = (outputs + kStripOutputs - 1) / kStripOutputs;
  CudaLinear linear = {.type = type,
                       .inputs = static_cast<int>(inputs),
                       .outputs = static_cast<int>(strips * kStripOutputs)};
  ASSIGN_OR_RETURN(linear.weights, DeviceArray<unsigned char>::Make(
                                       device_, strips * StripBytes(linear)));
  bytes_ += linear.weights.size();
  return linear;
}

absl::StatusOr<CudaLinear> CudaWeightLoader::Pack(
    const std::vector<Matrix>& matrices, int64_t outputs, int64_t inputs,
    CudaWeightType type) {
  ASSIGN_OR_RETURN(CudaLinear linear, NewLinear(outputs, inputs, type));
  if (matrices[0].view.dtype == DType::kRandom) {
    RETURN_IF_ERROR(MakeUp(matrices, linear));
    return linear;
  }
  RETURN_IF_ERROR(PackStrips(RowsByOutput(matrices, linear.outputs), linear));
  for (const Matrix& matrix : matrices) DropPages(matrix.view.data);
  return linear;
}

// Random weights, by the device.
absl::Status CudaWeightLoader::MakeUp(const std::vector<Matrix>& matrices,
                                      CudaLinear& linear) {
  const float scale = nn::RandomScale(linear.inputs);
  const bool is_e4m3 = linear.type == CudaWeightType::kE4m3;
  if (is_e4m3) {
    RETURN_IF_ERROR(
        SendScales(std::vector<float>(linear.outputs, scale), linear));
  }
  for (const Matrix& matrix : matrices) {
    const auto rows = static_cast<int>(matrix.values->rows());
    const bool is_last = &matrix == &matrices.back();
    const auto first = static_cast<int>(matrix.first_output);
    device_.Launch(cuda::RandomWeightsArgs{
        .seed = matrix.view.seed,
        .scale = scale,
        .rows = rows,
        .outputs = is_last && matrix.placing == Placing::kInOrder
                       ? linear.outputs - first
                       : rows,
        .inputs = linear.inputs,
        .placing = matrix.placing,
        .first_output = first,
        .is_e4m3 = is_e4m3,
        .out = linear.weights.data()});
  }
  return absl::OkStatus();
}

absl::Status CudaWeightLoader::SendScales(const std::vector<float>& scales,
                                          CudaLinear& linear) {
  ASSIGN_OR_RETURN(linear.scales, SendFloats(device_, scales));
  bytes_ += std::ssize(scales) * static_cast<int64_t>(sizeof(float));
  return absl::OkStatus();
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
                                          CudaLinear& linear) {
  const bool is_e4m3 = linear.type == CudaWeightType::kE4m3;
  const int64_t strips = linear.outputs / kStripOutputs;
  const int64_t strip_bytes = StripBytes(linear);
  const int64_t at_once = std::max<int64_t>(1, (16 << 20) / strip_bytes);
  std::vector<float> scales(is_e4m3 ? linear.outputs : 0);
  for (int64_t first = 0; first < strips; first += at_once) {
    const int64_t count = std::min(at_once, strips - first);
    ASSIGN_OR_RETURN(unsigned char* const packed,
                     conveyor_.Next(count * strip_bytes));
    pool_.ParallelFor(count, /*grain=*/1,
                      [&](const nn::ThreadPool::Chunk& chunk) {
                        std::vector<uint16_t> row(linear.inputs);
                        for (int64_t i = chunk.begin * kStripOutputs;
                             i < chunk.end * kStripOutputs; ++i) {
                          const int64_t output = first * kStripOutputs + i;
                          ReadBf16(rows[output], absl::MakeSpan(row));
                          const auto place = static_cast<uint32_t>(i);
                          if (is_e4m3) {
                            scales[output] = PackE4m3(row, place, packed);
                          } else {
                            PackBf16(row, place, packed);
                          }
                        }
                      });
    conveyor_.Send(linear.weights.data() + first * strip_bytes,
                   count * strip_bytes);
  }
  return is_e4m3 ? SendScales(scales, linear) : absl::OkStatus();
}

void CudaWeightLoader::ReadBf16(const Row& row, absl::Span<uint16_t> out) {
  if (row.values == nullptr) {
    std::fill(out.begin(), out.end(), uint16_t{0});
  } else if (row.values->format() == TensorValues::Format::kBf16) {
    std::memcpy(out.data(), row.values->Bytes(row.row).data(),
                out.size() * sizeof(uint16_t));
  } else {
    std::vector<float> wide(out.size());
    row.values->Row(row.row, wide.data());
    std::transform(wide.begin(), wide.end(), out.begin(), FloatToBf16);
  }
}

}  // namespace espalier
