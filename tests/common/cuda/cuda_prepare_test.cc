#include <algorithm>
#include <vector>

#include "tests/common/cuda/device_testing.h"

namespace espalier::cuda::cuda_prepare_test {
namespace {

class CudaPrepareTest : public DeviceTest {};
INSTANTIATE_FOR_DEVICES(CudaPrepareTest);

constexpr int kHeads = 6, kKvHeads = 2, kAllHeads = kHeads + 2 * kKvHeads;
constexpr int kPositions = 200, kPages = 5;

struct Problem {
  int dim, splits;
  bool norms, has_bias;
  // Two sequences, the second over the edge of a page.
  std::vector<PassSequence> sequences = {
      {.prefix = 10, .first_row = 0, .rows = 2, .table_begin = 0},
      {.prefix = 63, .first_row = 2, .rows = 3, .table_begin = 1}};
  std::vector<PassRow> rows = {{0, 10, 10, 0},
                               {0, 11, 11, 1},
                               {1, 63, 63, 3},
                               {1, 64, 64, 4},
                               {1, 64, 65, 6}};
  std::vector<int32_t> page_table = {4, 2, 0};
  std::vector<float> parts, bias, query_norm, key_norm, angles;

  Problem(int d, int s, bool n, bool b)
      : dim(d), splits(s), norms(n), has_bias(b) {
    Random random(d + s);
    parts = random.Normals(int64_t{s} * 16 * kAllHeads * d);
    bias = random.Normals(kAllHeads * d);
    query_norm = random.Normals(d);
    key_norm = random.Normals(d);
    for (int position = 0; position < kPositions; ++position) {
      for (int i = 0; i < d / 2; ++i) {
        const double angle = position * std::pow(1e4, -2.0 * i / d);
        angles.push_back(static_cast<float>(std::cos(angle)));
        angles.push_back(static_cast<float>(std::sin(angle)));
      }
    }
  }

  std::vector<double> Exact(int row, int head) const {
    std::vector<double> x(dim);
    double squares = 0;
    for (int i = 0; i < dim; ++i) {
      const int output = head * dim + i;
      for (int s = 0; s < splits; ++s) {
        x[i] += parts[(int64_t{s} * 16 + row) * kAllHeads * dim + output];
      }
      if (has_bias) x[i] += bias[output];
      squares += x[i] * x[i];
    }
    if (head >= kHeads + kKvHeads) return x;
    if (norms) {
      const std::vector<float>& norm = head < kHeads ? query_norm : key_norm;
      for (int i = 0; i < dim; ++i) {
        x[i] *= norm[i] / std::sqrt(squares / dim + 1e-6f);
      }
    }
    for (int i = 0; i < dim / 2; ++i) {
      const double angle = rows[row].position * std::pow(1e4, -2.0 * i / dim);
      const double a = x[i], b = x[i + dim / 2];
      x[i] = a * std::cos(angle) - b * std::sin(angle);
      x[i + dim / 2] = b * std::cos(angle) + a * std::sin(angle);
    }
    return x;
  }
};

struct Result {
  std::vector<uint16_t> queries;
  std::vector<unsigned char> pages;
};

Result RunPrepare(ComputeDevice& device, const Problem& p) {
  const int64_t page_bytes = 2 * PanelOffset(p.dim, kKvHeads, 1, 0, 0);
  const auto parts = ArrayOf(device, p.parts), bias = ArrayOf(device, p.bias);
  const auto query_norm = ArrayOf(device, p.query_norm);
  const auto key_norm = ArrayOf(device, p.key_norm);
  const auto angles = ArrayOf(device, p.angles);
  const auto rows = ArrayOf(device, p.rows);
  const auto sequences = ArrayOf(device, p.sequences);
  const auto table = ArrayOf(device, p.page_table);
  const auto pages = NanArray<unsigned char>(device, kPages * page_bytes);
  const auto queries = NanArray<uint16_t>(
      device, static_cast<int64_t>(p.rows.size()) * kHeads * p.dim);
  device.Launch(PrepareArgs{
      .parts = {.values = parts.data(),
                .splits = p.splits,
                .padded_rows = 16,
                .outputs = kAllHeads * p.dim,
                .bias = p.has_bias ? bias.data() : nullptr},
      .query_norm = p.norms ? query_norm.data() : nullptr,
      .key_norm = p.norms ? key_norm.data() : nullptr,
      .epsilon = 1e-6f,
      .angles = angles.data(),
      .rows = rows.data(),
      .sequences = sequences.data(),
      .num_rows = static_cast<int>(p.rows.size()),
      .heads = kHeads,
      .kv_heads = kKvHeads,
      .head_dim = p.dim,
      // The second layer's.
      .kv = {pages.data() + page_bytes / 2, page_bytes, table.data()},
      .queries = queries.data()});
  return {ValuesOf(device, queries), ValuesOf(device, pages)};
}

TEST_P(CudaPrepareTest, NormsTurnsAndWrites) {
  for (const Problem& p :
       {Problem(64, 1, false, false), Problem(128, 3, true, true)}) {
    const Result got = RunPrepare(Device(), p);
    const int64_t layer_bytes = PanelOffset(p.dim, kKvHeads, 1, 0, 0);
    int64_t written = 0;
    for (unsigned char byte : got.pages) written += byte != 0xff;
    EXPECT_LE(written, 5 * 2 * kKvHeads * p.dim * 2);  // nothing else
    for (int row = 0; row < static_cast<int>(p.rows.size()); ++row) {
      for (int head = 0; head < kAllHeads; ++head) {
        const std::vector<double> wanted = p.Exact(row, head);
        for (int i = 0; i < p.dim; ++i) {
          uint16_t bits = 0;
          if (head < kHeads) {
            bits = got.queries[(row * kHeads + head) * p.dim + i];
          } else {
            const PassRow& place = p.rows[row];
            const int page =
                p.page_table[p.sequences[place.sequence].table_begin +
                             place.slot / 64];
            const int kv_head = (head - kHeads) % kKvHeads;
            const int64_t at = 2 * layer_bytes * page + layer_bytes +
                               PanelOffset(p.dim, kKvHeads, 0, kv_head,
                                           head >= kHeads + kKvHeads) +
                               PanelPlace(p.dim, place.slot % 64, i / 8) +
                               i % 8 * 2;
            std::memcpy(&bits, &got.pages[at], 2);
          }
          ASSERT_NEAR(Bf16ToFloat(bits), wanted[i],
                      std::abs(wanted[i]) * 0.004 + 2e-5)
              << "row " << row << ", head " << head << ", " << i;
        }
      }
    }
  }
}

TEST_P(CudaPrepareTest, BitsAreTheRowsAlone) {
  const Problem p(128, 2, true, true);
  const Result all = RunPrepare(Device(1), p);
  for (int row = 0; row < static_cast<int>(p.rows.size()); ++row) {
    Problem one = p;
    one.rows = {p.rows[row]};
    const int columns = kAllHeads * p.dim;
    for (int s = 0; s < p.splits; ++s) {
      std::copy_n(&p.parts[int64_t{s * 16 + row} * columns], columns,
                  &one.parts[int64_t{s * 16} * columns]);
    }
    const Result alone = RunPrepare(Device(2 + row), one);
    const auto queries = all.queries.begin() + row * kHeads * p.dim;
    EXPECT_TRUE(SameBits(alone.queries, {queries, queries + kHeads * p.dim}));
    int written = 0;
    for (size_t i = 0; i < all.pages.size(); ++i) {
      if (alone.pages[i] == 0xff) continue;
      ++written;
      ASSERT_EQ(alone.pages[i], all.pages[i]);
    }
    EXPECT_GT(written, 2 * kKvHeads * p.dim);  // half of the bytes at least
  }
}

// Keys and values of several layers at once have the bits of each alone.
TEST_P(CudaPrepareTest, LayersTogetherAreThoseOfEach) {
  constexpr int kLayers = 3, kDim = 64, kSplits = 2;
  constexpr int kColumns = 2 * kKvHeads * kDim;  // of a layer
  const Problem p(kDim, kSplits, true, true);
  ComputeDevice& device = Device();
  Random random(7);
  const auto parts =
      ArrayOf(device, random.Normals(kSplits * 16 * kLayers * kColumns));
  const auto bias = ArrayOf(device, random.Normals(kLayers * kColumns));
  const auto norms = ArrayOf(device, random.Normals(kLayers * kDim));
  const auto angles = ArrayOf(device, p.angles);
  const auto rows = ArrayOf(device, p.rows);
  const auto sequences = ArrayOf(device, p.sequences);
  const auto table = ArrayOf(device, p.page_table);
  const int64_t page_bytes = PanelOffset(kDim, kKvHeads, kLayers, 0, 0);
  // `first`: of the layers
  const auto prepare = [&](int first, int layers, unsigned char* pages) {
    device.Launch(
        PrepareArgs{.parts = {.values = parts.data() + first * kColumns,
                              .splits = kSplits,
                              .padded_rows = 16,
                              .outputs = kLayers * kColumns,
                              .bias = bias.data() + first * kColumns},
                    .layers = layers,
                    .key_norm = norms.data() + first * kDim,
                    .epsilon = 1e-6f,
                    .angles = angles.data(),
                    .rows = rows.data(),
                    .sequences = sequences.data(),
                    .num_rows = static_cast<int>(p.rows.size()),
                    .kv_heads = kKvHeads,
                    .head_dim = kDim,
                    .kv = {pages + PanelOffset(kDim, kKvHeads, first, 0, 0),
                           page_bytes, table.data()}});
  };
  const auto together = NanArray<unsigned char>(device, kPages * page_bytes);
  const auto alone = NanArray<unsigned char>(device, kPages * page_bytes);
  prepare(0, kLayers, together.data());
  for (int layer = 0; layer < kLayers; ++layer) prepare(layer, 1, alone.data());
  const std::vector<unsigned char> all = ValuesOf(device, together);
  EXPECT_TRUE(SameBits(all, ValuesOf(device, alone)));
  EXPECT_GT(std::count_if(all.begin(), all.end(),
                          [](unsigned char byte) { return byte != 0xff; }),
            5 * kLayers * kColumns);  // half of the bytes at least
}

TEST_P(CudaPrepareTest, BitsDoNotDependOnTheSchedule) {
  const Problem p(128, 2, true, false);
  const Result expected = RunPrepare(Device(1), p);
  for (uint64_t seed = 2; seed < 6; ++seed) {
    const Result got = RunPrepare(Device(seed), p);
    EXPECT_TRUE(SameBits(got.queries, expected.queries));
    EXPECT_TRUE(SameBits(got.pages, expected.pages));
  }
}

}  // namespace
}  // namespace espalier::cuda::cuda_prepare_test
