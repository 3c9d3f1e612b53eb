#include "common/nn/packed_matrix.h"

#include <algorithm>
#include <array>
#include <cmath>
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

float LoadFloat(const WeightSource& source, int64_t index) {
  switch (source.format) {
    case WeightSource::Format::kBf16:
      return Bf16ToFloat(Load<uint16_t>(source.data, index));
    case WeightSource::Format::kF16:
      return F16ToFloat(Load<uint16_t>(source.data, index));
    case WeightSource::Format::kFloat32:
      return Load<float>(source.data, index);
  }
  ESPALIER_CHECK(false);
}

int64_t LaneBytes(WeightType type, int64_t inputs) {
  switch (type) {
    case WeightType::kBf16:
      return PaddedInputs(inputs) * 2;
    case WeightType::kInt8:
      return PaddedInputs(inputs);
    case WeightType::kFloat32:
      return inputs * 4;
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

// `value`: in units of the scale, if there is one.
void Store(WeightType type, std::byte* panel, int64_t place, float value) {
  switch (type) {
    case WeightType::kFloat32:
      return StoreAs(value, panel, place);
    case WeightType::kBf16:
      return StoreAs(FloatToBf16(value), panel, place);
    case WeightType::kInt8:
      return StoreAs(static_cast<int8_t>(std::lrintf(value)), panel, place);
  }
}

float LoadFromPanel(WeightType type, const std::byte* panel, int64_t place) {
  switch (type) {
    case WeightType::kFloat32:
      return Load<float>(panel, place);
    case WeightType::kBf16:
      return Bf16ToFloat(Load<uint16_t>(panel, place));
    case WeightType::kInt8:
      return Load<int8_t>(panel, place);
  }
  ESPALIER_CHECK(false);
}

// What all panels of a matrix are packed from.
struct PanelJob {
  absl::Span<const WeightSource> parts;
  const std::vector<Origin>& origins;
  const PackedMatrix::Spec& spec;
  float* scales;  // [panels * kPanelOutputs], or null

  const Origin& OriginOf(int64_t panel, int64_t lane) const {
    return origins[panel * kPanelOutputs + lane];
  }
};

int64_t ElementBytes(const WeightSource& source) {
  return source.format == WeightSource::Format::kFloat32 ? 4 : 2;
}

absl::Span<const std::byte> BytesOf(const WeightSource& source,
                                    int64_t inputs) {
  return {source.data,
          static_cast<size_t>(source.outputs * inputs * ElementBytes(source))};
}

float LoadWeight(const PanelJob& job, const Origin& origin, int64_t k) {
  const auto& [part, row] = origin;
  const WeightSource& source = job.parts[part];
  return LoadFloat(source, source.transposed ? k * source.outputs + row
                                             : row * job.spec.inputs + k);
}

// So that the largest weight of each output becomes 127.
void ChooseScales(const PanelJob& job, int64_t panel) {
  constexpr float kLargest = 127;
  for (int64_t lane = 0; lane < kPanelOutputs; ++lane) {
    const Origin& origin = job.OriginOf(panel, lane);
    float most = 0;
    for (int64_t k = 0; origin.part >= 0 && k < job.spec.inputs; ++k) {
      most = std::max(most, std::abs(LoadWeight(job, origin, k)));
    }
    job.scales[panel * kPanelOutputs + lane] = most > 0 ? most / kLargest : 1;
  }
}

// Input by input, so that a panel is written front to back and a transposed
// source is read along its rows.
void ConvertPanel(const PanelJob& job, int64_t index, std::byte* panel) {
  const float* scales = nullptr;
  if (job.scales != nullptr) {
    ChooseScales(job, index);
    scales = job.scales + index * kPanelOutputs;
  }
  for (int64_t k = 0; k < job.spec.inputs; ++k) {
    for (int64_t lane = 0; lane < kPanelOutputs; ++lane) {
      const Origin& origin = job.OriginOf(index, lane);
      if (origin.part < 0) continue;
      const float weight = LoadWeight(job, origin, k);
      Store(job.spec.type, panel, PlaceInPanel(job.spec.type, lane, k),
            scales == nullptr ? weight : weight / scales[lane]);
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

// Of each part, what these panels have been packed from. Of a transposed one
// they have read a little of every row.
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
    const int64_t row_bytes = job.spec.inputs * ElementBytes(source);
    source.release({source.data + first * row_bytes,
                    static_cast<size_t>((last - first + 1) * row_bytes)});
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
  packed.panels_ = static_cast<int64_t>(origins.size()) / kPanelOutputs;
  for (int64_t outputs : part_outputs) packed.out_columns_ += outputs;
  if (spec.gated) packed.out_columns_ /= 2;
  const int64_t panel_bytes = LaneBytes(spec.type, spec.inputs) * kPanelOutputs;
  std::byte* const data = arena.Allocate(packed.panels_ * panel_bytes);
  float* scales = nullptr;
  if (spec.type == WeightType::kInt8) {
    scales = reinterpret_cast<float*>(arena.Allocate(std::ssize(origins) * 4));
  }
  packed.view_ = {.type = spec.type,
                  .data = data,
                  .panel_bytes = panel_bytes,
                  .inputs = spec.inputs,
                  .scales = scales};

  const PanelJob job = {parts, origins, spec, scales};
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
  const float scale = view_.scales == nullptr ? 1 : view_.scales[output];
  for (int64_t k = 0; k < view_.inputs; ++k) {
    const int64_t place = PlaceInPanel(view_.type, lane, k);
    out[k] = scale * LoadFromPanel(view_.type, panel, place);
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
