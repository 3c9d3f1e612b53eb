#include "common/model/native/native_mixture.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

namespace espalier {
namespace {

constexpr int64_t kMixtureChunksPerThread = 4;
constexpr int64_t kMixtureRowsPerChunk = 8;

bool SameType(const nn::PackedMatrix& a, const nn::PackedMatrix& b) {
  return a.view().type == b.view().type && a.rounded() == b.rounded();
}

}  // namespace

void NativeMixture::Run(const ExpertsShape& shape, const NativeLayer& layer,
                        const float* x, int64_t rows, float* out) {
  const int64_t hidden = layer.experts.router.matrix.inputs();
  input_.resize(rows * hidden);
  if (layer.ffn_norm.is_there()) {
    operands_.Normalize(layer.ffn_norm, rows, x, input_.data());
  } else {
    std::copy_n(x, rows * hidden, input_.begin());
  }
  Route(shape, layer, rows, hidden);
  CopyToPlaces(hidden);
  inner_.resize(std::ssize(groups_.row_of) * shape.ffn_size);
  Multiply(layer.experts.mlps, &NativeMlp::up, layer.activation, placed_.data(),
           inner_.data());
  Multiply(layer.experts.mlps, &NativeMlp::down, nn::Activation::kNone,
           inner_.data(), placed_.data());
  Combine(shape.per_row, rows, hidden, out);
}

void NativeMixture::Route(const ExpertsShape& shape, const NativeLayer& layer,
                          int64_t rows, int64_t hidden) {
  const nn::PackedMatrix& router = layer.experts.router.matrix;
  logits_.resize(rows * shape.count);
  runtime_.pool.ParallelFor(
      router.panels(), /*grain=*/1, [&](const nn::ThreadPool::Chunk& chunk) {
        runtime_.kernels.linear({.weights = router.view(),
                                 .panel_begin = chunk.begin,
                                 .panel_end = chunk.end,
                                 .rows = rows,
                                 .operand = nn::OperandType::kFloat32,
                                 .x = input_.data(),
                                 .x_stride = hidden * 4,
                                 .out = logits_.data(),
                                 .out_stride = shape.count,
                                 .out_columns = shape.count});
      });
  choices_.resize(rows * shape.per_row);
  for (int64_t row = 0; row < rows; ++row) {
    ChooseExperts(
        shape,
        absl::MakeConstSpan(logits_).subspan(row * shape.count, shape.count),
        absl::MakeSpan(choices_).subspan(row * shape.per_row, shape.per_row));
  }
  groups_ = GroupByExpert(shape, choices_);
  experts_read_ += std::ssize(groups_.groups);
}

void NativeMixture::CopyToPlaces(int64_t hidden) {
  const int64_t places = std::ssize(groups_.row_of);
  placed_.resize(places * hidden);
  runtime_.pool.ParallelFor(
      places, kMixtureRowsPerChunk, [&](const nn::ThreadPool::Chunk& chunk) {
        for (int64_t i = chunk.begin; i < chunk.end; ++i) {
          std::copy_n(&input_[groups_.row_of[i] * hidden], hidden,
                      &placed_[i * hidden]);
        }
      });
}

void NativeMixture::Multiply(const std::vector<NativeMlp>& mlps,
                             NativeLinear NativeMlp::*product,
                             nn::Activation activation, const float* x,
                             float* out) {
  const nn::PackedMatrix& first = (mlps.front().*product).matrix;
  const RowOperands::Rows rows =
      operands_.Prepare(operands_.TypeFor(first, /*sensitive=*/false), {x},
                        std::ssize(groups_.row_of), first.inputs());
  const int64_t panels = first.panels();  // of each expert
  const int64_t total = panels * std::ssize(groups_.groups);
  const int64_t chunks = kMixtureChunksPerThread * runtime_.pool.threads();
  const auto run = [&](const ExpertGroups::Group& group, int64_t begin,
                       int64_t end) {
    const nn::PackedMatrix& matrix = (mlps[group.expert].*product).matrix;
    runtime_.kernels.linear({.weights = matrix.view(),
                             .panel_begin = begin,
                             .panel_end = end,
                             .rows = group.rows,
                             .operand = rows.type,
                             .x = static_cast<const std::byte*>(rows.rows) +
                                  group.first * rows.stride,
                             .x_stride = rows.stride,
                             .out = out + group.first * matrix.out_columns(),
                             .out_stride = matrix.out_columns(),
                             .out_columns = matrix.out_columns(),
                             .activation = activation,
                             .gated = matrix.gated()});
  };
  runtime_.pool.ParallelFor(total, (total + chunks - 1) / chunks,
                            [&](const nn::ThreadPool::Chunk& chunk) {
                              for (int64_t i = chunk.begin; i < chunk.end;) {
                                const int64_t begin = i % panels;
                                const int64_t end =
                                    std::min(panels, begin + chunk.end - i);
                                run(groups_.groups[i / panels], begin, end);
                                i += end - begin;
                              }
                            });
}

void NativeMixture::Combine(int64_t per_row, int64_t rows, int64_t hidden,
                            float* out) {
  const auto combine = [&](int64_t row) {
    float* const sum = out + row * hidden;
    for (int64_t rank = 0; rank < per_row; ++rank) {
      const int64_t choice = row * per_row + rank;
      const float weight = choices_[choice].weight;
      const float* const y = &placed_[groups_.places[choice] * hidden];
      for (int64_t i = 0; i < hidden; ++i) {
        sum[i] = (rank == 0 ? 0.0f : sum[i]) + weight * y[i];
      }
    }
  };
  runtime_.pool.ParallelFor(
      rows, kMixtureRowsPerChunk, [&](const nn::ThreadPool::Chunk& chunk) {
        for (int64_t row = chunk.begin; row < chunk.end; ++row) {
          combine(row);
        }
      });
}

absl::Status CheckAlike(const NativeExperts& experts,
                        const std::string& layer) {
  const NativeMlp& first = experts.mlps.front();
  for (const NativeMlp& mlp : experts.mlps) {
    if (SameType(mlp.up.matrix, first.up.matrix) &&
        SameType(mlp.down.matrix, first.down.matrix)) {
      continue;
    }
    return absl::InvalidArgumentError(
        absl::StrCat(layer, "mlp.experts: weights of expert ", &mlp - &first,
                     " have another type than those of expert 0"));
  }
  return absl::OkStatus();
}

}  // namespace espalier
