#include "common/model/native/row_operands.h"

#include <iterator>

namespace espalier {
namespace {

constexpr int64_t kRowsPerChunk = 8;  // few rows are not worth a wake-up
constexpr int64_t kLineBytes = 64;

}  // namespace

// One line more than a row needs: a stride of whole pages would crowd the rows
// of a tile into few sets of the cache.
int64_t RowOperands::LinesOf(nn::OperandType type, int64_t inputs) {
  static_assert(sizeof(CacheLine) == kLineBytes);
  return nn::OperandBytes(type, inputs) / kLineBytes + 1;
}

nn::OperandType RowOperands::TypeFor(const nn::PackedMatrix& matrix,
                                     bool sensitive) const {
  switch (matrix.view().type) {
    case nn::WeightType::kFloat32:
      return nn::OperandType::kFloat32;
    case nn::WeightType::kBf16:
      return runtime_.operand;
    case nn::WeightType::kBlocks:
      break;
  }
  return sensitive || matrix.rounded() ? nn::OperandType::kFineBlocks
                                       : nn::OperandType::kBlocks;
}

RowOperands::Rows RowOperands::Prepare(nn::OperandType type, const Input& input,
                                       int64_t rows, int64_t inputs) {
  if (input.operand.rows != nullptr) return input.operand;
  const NativeNorm* const norm =
      input.norm != nullptr && input.norm->is_there() ? input.norm : nullptr;
  const bool as_it_is = type == nn::OperandType::kFloat32;
  if (as_it_is && norm == nullptr) {
    return {.rows = input.x, .stride = inputs * 4};
  }
  const int64_t lines = LinesOf(type, inputs);
  if (!as_it_is && std::ssize(operands_) < lines * rows) {
    operands_.resize(lines * rows);
  }
  if (norm != nullptr && std::ssize(normed_) < inputs * rows) {
    normed_.resize(inputs * rows);
  }
  runtime_.pool.ParallelFor(
      rows, kRowsPerChunk, [&](const nn::ThreadPool::Chunk& chunk) {
        for (int64_t i = chunk.begin; i < chunk.end; ++i) {
          const float* x = input.x + i * inputs;
          if (norm != nullptr) {
            float* const normed = &normed_[i * inputs];
            NormalizeRow(*norm, x, normed);
            x = normed;
          }
          if (as_it_is) continue;
          runtime_.kernels.prepare({.type = type,
                                    .x = x,
                                    .inputs = inputs,
                                    .out = &operands_[i * lines]});
        }
      });
  if (as_it_is) return {.rows = normed_.data(), .stride = inputs * 4};
  return {.type = type, .rows = operands_.data(), .stride = lines * kLineBytes};
}

RowOperands::Rows RowOperands::Reserve(nn::OperandType type, int64_t rows,
                                       int64_t inputs) {
  if (!nn::IsMadeInParts(type)) return {};
  const int64_t lines = LinesOf(type, inputs);
  if (std::ssize(reserved_) < lines * rows) reserved_.resize(lines * rows);
  return {.type = type, .rows = reserved_.data(), .stride = lines * kLineBytes};
}

void RowOperands::PreparePart(const Rows& reserved, int64_t row, int64_t begin,
                              int64_t inputs, const float* x) {
  std::byte* const rows = reserved_.data()->bytes;
  runtime_.kernels.prepare({.type = reserved.type,
                            .x = x,
                            .inputs = inputs,
                            .out = rows + row * reserved.stride +
                                   nn::OperandBytes(reserved.type, begin)});
}

void RowOperands::Normalize(const NativeNorm& norm, int64_t rows,
                            const float* x, float* out) {
  const int64_t size = std::ssize(norm.weight);
  runtime_.pool.ParallelFor(
      rows, kRowsPerChunk, [&](const nn::ThreadPool::Chunk& chunk) {
        for (int64_t row = chunk.begin; row < chunk.end; ++row) {
          NormalizeRow(norm, x + row * size, out + row * size);
        }
      });
}

void RowOperands::NormalizeRow(const NativeNorm& norm, const float* x,
                               float* out) const {
  runtime_.kernels.normalize(
      {.x = x,
       .size = std::ssize(norm.weight),
       .weight = norm.weight.data(),
       .bias = norm.bias.empty() ? nullptr : norm.bias.data(),
       .epsilon = epsilon_,
       .out = out});
}

}  // namespace espalier
