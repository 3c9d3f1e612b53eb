#include <set>
#include <vector>

#include "tests/common/cuda/device_testing.h"

namespace espalier::cuda {
namespace {

class CudaCacheTest : public DeviceTest {};
INSTANTIATE_FOR_DEVICES(CudaCacheTest);

struct Problem {
  int dim, panels, pages;
  std::vector<int32_t> page_table;
  std::vector<KeepSequence> sequences;
  std::vector<uint16_t> paths;
  std::vector<unsigned char> kv;

  int64_t page_bytes() const { return int64_t{panels} * PanelBytes(dim); }
  int64_t Place(int sequence, int panel, int slot, int piece) const {
    const int page =
        page_table[sequences[sequence].table_begin + slot / kPagePositions];
    return page * page_bytes() + int64_t{panel} * PanelBytes(dim) +
           PanelPlace(dim, slot % kPagePositions, piece);
  }
};

Problem MakeProblem(int dim, uint64_t seed) {
  Problem p = {
      .dim = dim, .panels = 6, .pages = 9, .page_table = {5, 3, 8, 0, 7, 1, 2}};
  const auto add = [&](int prefix, int table, std::vector<uint16_t> path) {
    p.sequences.push_back({prefix, table, static_cast<int>(p.paths.size()),
                           static_cast<int>(path.size())});
    p.paths.insert(p.paths.end(), path.begin(), path.end());
  };
  add(60, 0, {0, 1, 5, 6, 60, 61, 70});  // over the edges of pages
  add(10, 3, {});
  // Each row moves by one: sources and places overlap.
  std::vector<uint16_t> shifted(100);
  for (int i = 0; i < 100; ++i) shifted[i] = static_cast<uint16_t>(i + 1);
  add(0, 4, shifted);
  p.kv.resize(p.pages * p.page_bytes());
  Random random(seed);
  for (unsigned char& byte : p.kv)
    byte = static_cast<unsigned char>(random.Below(256));
  return p;
}

std::vector<unsigned char> RunKeep(ComputeDevice& device, const Problem& p) {
  const auto pages = ArrayOf(device, p.kv);
  const auto table = ArrayOf(device, p.page_table);
  const auto sequences = ArrayOf(device, p.sequences);
  const auto paths = ArrayOf(device, p.paths);
  device.Launch(KeepArgs{.kv = {pages.data(), p.page_bytes(), table.data()},
                         .sequences = sequences.data(),
                         .paths = paths.data(),
                         .num_sequences = static_cast<int>(p.sequences.size()),
                         .panels = p.panels,
                         .head_dim = p.dim});
  return ValuesOf(device, pages);
}

TEST_P(CudaCacheTest, MovesAcceptedRowsInAllPanels) {
  for (int dim : {64, 128}) {
    const Problem p = MakeProblem(dim, dim);
    std::vector<unsigned char> wanted = p.kv;
    for (int s = 0; s < static_cast<int>(p.sequences.size()); ++s) {
      const KeepSequence& sequence = p.sequences[s];
      for (int panel = 0; panel < p.panels; ++panel) {
        for (int i = 0; i < sequence.path_size; ++i) {
          for (int piece = 0; piece < dim / 8; ++piece) {
            const int from = sequence.prefix + p.paths[sequence.path_begin + i];
            std::memcpy(&wanted[p.Place(s, panel, sequence.prefix + i, piece)],
                        &p.kv[p.Place(s, panel, from, piece)], 16);
          }
        }
      }
    }
    for (uint64_t seed = 1; seed < 4; ++seed) {
      EXPECT_TRUE(SameBits(RunKeep(Device(seed), p), wanted));
    }
  }
}

TEST_P(CudaCacheTest, GathersTapsOfKeptRows) {
  constexpr int kTaps = 3, kRows = 20, kHidden = 1152;
  const std::vector<int32_t> points = {0, 2};
  const std::vector<uint16_t> taps = Random(3).Bf16s(kTaps * kRows * kHidden);
  const std::vector<int32_t> kept = {0, 7, 19, 3};
  ComputeDevice& device = Device();
  const auto from = ArrayOf(device, taps);
  const auto rows = ArrayOf(device, kept);
  const auto which = ArrayOf(device, points);
  const auto to = NanArray<uint16_t>(device, 4 * 2 * kHidden);
  device.Launch(GatherTapsArgs{.taps = from.data(),
                               .points = which.data(),
                               .kept = rows.data(),
                               .num_taps = 2,
                               .rows = kRows,
                               .hidden = kHidden,
                               .num_kept = 4,
                               .out = to.data()});
  const std::vector<uint16_t> got = ValuesOf(device, to);
  for (int k = 0; k < 4; ++k) {
    for (int tap = 0; tap < 2; ++tap) {
      for (int i = 0; i < kHidden; ++i) {
        ASSERT_EQ(got[(k * 2 + tap) * kHidden + i],
                  taps[(points[tap] * kRows + kept[k]) * kHidden + i]);
      }
    }
  }
}

}  // namespace
}  // namespace espalier::cuda
