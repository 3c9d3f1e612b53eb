#include "common/nn/packed_matrix.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <vector>

#include "common/base/bf16.h"
#include "common/base/check.h"

namespace espalier::nn {
namespace {

constexpr int64_t kPanelsPerGroup = 4;  // packed, then released

int64_t DivideUp(int64_t value, int64_t unit) {
  return (value + unit - 1) / unit;
}

// Where one packed output comes from; part -1: padding.
struct Origin {
  int64_t part = -1;
  int64_t row = 0;
};

// The rule of the layout, for weights and biases.
std::vector<Origin> OriginsOf(const std::vector<int64_t>& part_outputs,
                              bool gated) {
  std::vector<Origin> origins;
  if (gated) {
    ESPALIER_CHECK(part_outputs.size() == 2 &&
                   part_outputs[0] == part_outputs[1]);
    const int64_t panels = DivideUp(part_outputs[0], kGatedOutputs);
    for (int64_t i = 0; i < panels * kPanelOutputs; ++i) {
      const int64_t row = i / kPanelOutputs * kGatedOutputs + i % kGatedOutputs;
      const int64_t part = i % kPanelOutputs / kGatedOutputs;
      origins.push_back(row < part_outputs[part] ? Origin{part, row}
                                                 : Origin{});
    }
    return origins;
  }
  for (size_t part = 0; part < part_outputs.size(); ++part) {
    for (int64_t row = 0; row < part_outputs[part]; ++row) {
      origins.push_back({static_cast<int64_t>(part), row});
    }
  }
  origins.resize(DivideUp(static_cast<int64_t>(origins.size()), kPanelOutputs) *
                 kPanelOutputs);
  return origins;
}

template <typename T>
T Load(const std::byte* data, int64_t index) {
  T value;
  std::memcpy(&value, data + index * static_cast<int64_t>(sizeof(T)),
              sizeof(T));
  return value;
}

int64_t PanelBytes(const PackedMatrix::Spec& spec) {
  const int64_t padded = PaddedInputs(spec.inputs);
  switch (spec.type) {
    case WeightType::kBf16:
      return padded * kPanelOutputs * 2;
    case WeightType::kFloat32:
      return spec.inputs * kPanelOutputs * 4;
    case WeightType::kBlocks:
      return padded / kBlockInputs * BlockBytes(spec.format);
  }
  ESPALIER_CHECK(false);
}

// Where element `k` of a lane lies, in elements.
int64_t PlaceInPanel(WeightType type, int64_t lane, int64_t k) {
  return type == WeightType::kFloat32
             ? k * kPanelOutputs + lane
             : (k / 2 * kPanelOutputs + lane) * 2 + k % 2;
}

template <typename T>
void StoreAs(T value, std::byte* panel, int64_t place) {
  std::memcpy(panel + place * static_cast<int64_t>(sizeof(T)), &value,
              sizeof(T));
}

void Store(WeightType type, std::byte* panel, int64_t place, float value) {
  if (type == WeightType::kFloat32) {
    StoreAs(value, panel, place);
  } else {
    StoreAs(FloatToBf16(value), panel, place);
  }
}

float LoadFromPanel(WeightType type, const std::byte* panel, int64_t place) {
  return type == WeightType::kFloat32
             ? Load<float>(panel, place)
             : Bf16ToFloat(Load<uint16_t>(panel, place));
}

// What all panels of a matrix are packed from.
struct PanelJob {
  absl::Span<const WeightSource> parts;
  const std::vector<Origin>& origins;
  const PackedMatrix::Spec& spec;

  const Origin& OriginOf(int64_t panel, int64_t lane) const {
    return origins[panel * kPanelOutputs + lane];
  }
};

absl::Span<const std::byte> BytesOf(const WeightSource& source,
                                    int64_t inputs) {
  return {source.data, static_cast<size_t>(source.outputs *
                                           RowBytes(source.format, inputs))};
}

// Whether `format` has room for blocks of the source.
bool HasRoom(const BlockFormat& format, const WeightSource& source) {
  return UnitInputs(source.format) > 1 &&
         SameFormat(CommonFormat(BlockFormatOf(source.format), format), format);
}

// Weights to a block of the panel: read, or rounded.
WeightBlock BlockOf(const PanelJob& job, const Origin& origin, int64_t index) {
  const WeightSource& source = job.parts[origin.part];
  const BlockFormat& format = job.spec.format;
  if (HasRoom(format, source)) {
    return Widen(ReadBlock(source, origin.row, job.spec.inputs, index),
                 BlockFormatOf(source.format), format);
  }
  float weights[kBlockInputs];
  ReadWeights(source, origin.row, job.spec.inputs, index, weights);
  return Quantize(weights, format);
}

void StoreFloats(const PanelJob& job, const Origin& origin, int64_t lane,
                 int64_t index, std::byte* panel) {
  float weights[kBlockInputs];
  ReadWeights(job.parts[origin.part], origin.row, job.spec.inputs, index,
              weights);
  const int64_t begin = index * kBlockInputs;
  const int64_t end = std::min(begin + kBlockInputs, job.spec.inputs);
  for (int64_t k = begin; k < end; ++k) {
    Store(job.spec.type, panel, PlaceInPanel(job.spec.type, lane, k),
          weights[k - begin]);
  }
}

// Block by block, so that a panel is written front to back and a transposed
// source is read along its rows.
void ConvertPanel(const PanelJob& job, int64_t panel_index, std::byte* panel) {
  const int64_t blocks = PaddedInputs(job.spec.inputs) / kBlockInputs;
  for (int64_t index = 0; index < blocks; ++index) {
    for (int64_t lane = 0; lane < kPanelOutputs; ++lane) {
      const Origin& origin = job.OriginOf(panel_index, lane);
      if (origin.part < 0) continue;
      if (job.spec.type == WeightType::kBlocks) {
        StoreBlock(BlockOf(job, origin, index), job.spec.format, lane,
                   panel + index * BlockBytes(job.spec.format));
      } else {
        StoreFloats(job, origin, lane, index, panel);
      }
    }
  }
}

// The usual case: bf16 stays bf16, and pairs of inputs lie together on both
// sides.
bool CanCopy(absl::Span<const WeightSource> parts, WeightType type) {
  return type == WeightType::kBf16 &&
         std::all_of(parts.begin(), parts.end(), [](const WeightSource& part) {
           return part.format == WeightSource::Format::kBf16 &&
                  !part.transposed;
         });
}

void CopyPanel(const PanelJob& job, int64_t index, std::byte* panel) {
  const int64_t inputs = job.spec.inputs;
  std::array<const std::byte*, kPanelOutputs> rows;
  for (int64_t lane = 0; lane < kPanelOutputs; ++lane) {
    const auto [part, row] = job.OriginOf(index, lane);
    rows[lane] = part < 0 ? nullptr : job.parts[part].data + row * inputs * 2;
  }
  for (int64_t k = 0; k < inputs; k += 2) {
    std::byte* const pairs = panel + k / 2 * kPanelOutputs * 4;
    const bool whole = k + 1 < inputs;
    for (int64_t lane = 0; lane < kPanelOutputs; ++lane) {
      if (rows[lane] == nullptr) continue;  // padding
      std::memcpy(pairs + lane * 4, rows[lane] + k * 2, whole ? 4 : 2);
    }
  }
}

// Releases the rows of each part that these panels have been packed from, but
// not those of a transposed part: a panel reads a little of every row there.
void ReleaseRows(const PanelJob& job, int64_t begin, int64_t end) {
  for (int64_t part = 0; part < std::ssize(job.parts); ++part) {
    const WeightSource& source = job.parts[part];
    if (source.release == nullptr || source.transposed) continue;
    int64_t first = source.outputs, last = -1;
    for (int64_t i = begin * kPanelOutputs; i < end * kPanelOutputs; ++i) {
      if (job.origins[i].part != part) continue;
      first = std::min(first, job.origins[i].row);
      last = std::max(last, job.origins[i].row);
    }
    if (first > last) continue;
    const int64_t row_bytes = RowBytes(source.format, job.spec.inputs);
    source.release({source.data + first * row_bytes,
                    static_cast<size_t>((last - first + 1) * row_bytes)});
  }
}

void RowOfBlocks(const PanelView& view, const std::byte* panel, int64_t lane,
                 float* out) {
  for (int64_t k = 0; k < view.inputs; k += kBlockInputs) {
    float weights[kBlockInputs];
    Dequantize(LoadBlock(panel + k / kBlockInputs * BlockBytes(view.format),
                         view.format, lane),
               view.format, weights);
    std::copy_n(weights, std::min(kBlockInputs, view.inputs - k), out + k);
  }
}

}  // namespace

PackedMatrix PackedMatrix::Pack(absl::Span<const WeightSource> parts,
                                const Spec& spec, HugePageArena& arena,
                                ThreadPool& pool) {
  std::vector<int64_t> part_outputs;
  for (const WeightSource& part : parts) part_outputs.push_back(part.outputs);
  const std::vector<Origin> origins = OriginsOf(part_outputs, spec.gated);

  PackedMatrix packed;
  packed.gated_ = spec.gated;
  packed.rounded_ = spec.type == WeightType::kBlocks &&
                    !std::all_of(parts.begin(), parts.end(),
                                 [&spec](const WeightSource& part) {
                                   return HasRoom(spec.format, part);
                                 });
  packed.panels_ = static_cast<int64_t>(origins.size()) / kPanelOutputs;
  for (int64_t outputs : part_outputs) packed.out_columns_ += outputs;
  if (spec.gated) packed.out_columns_ /= 2;
  const int64_t panel_bytes = PanelBytes(spec);
  std::byte* const data = arena.Allocate(packed.panels_ * panel_bytes);
  packed.view_ = {.type = spec.type,
                  .data = data,
                  .panel_bytes = panel_bytes,
                  .inputs = spec.inputs,
                  .format = spec.format};

  const PanelJob job = {parts, origins, spec};
  const bool copy = CanCopy(parts, spec.type);
  const auto pack = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      std::byte* const panel = data + i * panel_bytes;
      std::memset(panel, 0, panel_bytes);
      copy ? CopyPanel(job, i, panel) : ConvertPanel(job, i, panel);
    }
    ReleaseRows(job, begin, end);
  };
  const int64_t groups = DivideUp(packed.panels_, kPanelsPerGroup);
  pool.ParallelFor(groups, /*grain=*/1, [&](const ThreadPool::Chunk& chunk) {
    for (int64_t i = chunk.begin; i < chunk.end; ++i) {
      pack(i * kPanelsPerGroup,
           std::min((i + 1) * kPanelsPerGroup, packed.panels_));
    }
  });
  for (const WeightSource& part : parts) {  // pages that groups share
    if (part.release != nullptr) part.release(BytesOf(part, spec.inputs));
  }
  return packed;
}

void PackedMatrix::Row(int64_t output, float* out) const {
  ESPALIER_CHECK(!gated_ && 0 <= output && output < out_columns_);
  const std::byte* const panel =
      view_.data + output / kPanelOutputs * view_.panel_bytes;
  const int64_t lane = output % kPanelOutputs;
  if (view_.type == WeightType::kBlocks) {
    RowOfBlocks(view_, panel, lane, out);
    return;
  }
  for (int64_t k = 0; k < view_.inputs; ++k) {
    out[k] =
        LoadFromPanel(view_.type, panel, PlaceInPanel(view_.type, lane, k));
  }
}

std::vector<float> PackBias(absl::Span<const std::vector<float>> parts,
                            bool gated) {
  std::vector<int64_t> part_outputs;
  for (const auto& part : parts) {
    part_outputs.push_back(static_cast<int64_t>(part.size()));
  }
  std::vector<float> packed;
  for (const auto& [part, row] : OriginsOf(part_outputs, gated)) {
    packed.push_back(part < 0 ? 0.0f : parts[part][row]);
  }
  return packed;
}

}  // namespace espalier::nn
