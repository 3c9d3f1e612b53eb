// Each wrapper of device.h and tensor_core.h does on the device what its C++
// says, exactly where numbers are whole; and what the exactness of the engine
// rests on: an element of a product depends on its row and column alone, and
// all widths of a product give the same bits.
#include <array>
#include <cstring>
#include <deque>
#include <functional>
#include <set>

#include "common/cuda/emulation/grid.h"
#include "common/cuda/emulation/resident_grid.h"
#include "tests/common/cuda/device_testing.h"
#include "tests/device/probes.h"
#include "tests/testing/e4m3_value.h"

#if !defined(ESPALIER_HAS_NVCC)
namespace espalier::cuda {
int RunProbeOnGpu(Probe, const ProbeArgs&) { return 1; }
}  // namespace espalier::cuda
#endif

namespace espalier::cuda {
namespace {

void RunEmulated(Probe probe, const ProbeArgs& args) {
  emulation::StackPool stacks;
  std::deque<emulation::Grid> grids;
  const auto enqueue = [&](const LaunchShape& shape,
                           std::function<void()> kernel) {
    const emulation::BlockShape blocks = {.kernel = shape.kernel,
                                          .grid = {shape.grid_x, shape.grid_y},
                                          .threads = shape.threads,
                                          .shared_bytes = shape.shared_bytes,
                                          .seed = grids.size()};
    if (shape.is_resident) {
      emulation::ResidentGrid(blocks, std::move(kernel), stacks).Finish();
    } else {
      grids.emplace_back(blocks, std::move(kernel), stacks);
    }
  };
  LaunchProbe(EmulatedLauncher(enqueue), probe, args);
  for (; !grids.empty(); grids.pop_front()) {
    if (grids.size() > 1) grids[1].RunAhead();
    grids.front().Finish();
  }
}

class DeviceProbesTest : public DeviceTest {
 protected:
  // `out`: what it holds before.
  template <typename T, typename I>
  std::vector<T> Run(Probe probe, const std::vector<I>& in,
                     std::vector<T> out) {
    ComputeDevice& device = Device();
    const auto from = ArrayOf(device, in);
    const auto to = ArrayOf(device, out);
    const ProbeArgs args = {
        .in = reinterpret_cast<const unsigned char*>(from.data()),
        .out = reinterpret_cast<unsigned char*>(to.data())};
    if (GetParam() == "emulated") {
      RunEmulated(probe, args);
    } else {
      EXPECT_EQ(RunProbeOnGpu(probe, args), 0);
    }
    return ValuesOf(device, to);
  }
  template <typename T, typename I>
  std::vector<T> Run(Probe probe, const std::vector<I>& in, size_t out_size) {
    return Run(probe, in, std::vector<T>(out_size));
  }
};
INSTANTIATE_FOR_DEVICES(DeviceProbesTest);

TEST_P(DeviceProbesTest, PacksBf16ToNearestEven) {
  Random random(1);
  for (int turn = 0; turn < 40; ++turn) {
    std::vector<float> in = random.Normals(2 * kProbeThreads, 1e3f);
    for (size_t i = 0; i < in.size(); i += 3) {  // ties, up and down
      const uint32_t bits = uint32_t{FloatToBf16(in[i])} << 16 | 0x8000;
      std::memcpy(&in[i], &bits, 4);
    }
    in[0] = 0.0f, in[1] = -0.0f, in[2] = INFINITY, in[3] = 3.4e38f;
    const auto out = Run<uint32_t>(Probe::kPack, in, kProbeThreads);
    for (int i = 0; i < kProbeThreads; ++i) {
      ASSERT_EQ(out[i], FloatToBf16(in[2 * i]) |
                            uint32_t{FloatToBf16(in[2 * i + 1])} << 16);
    }
  }
}

TEST_P(DeviceProbesTest, WidensBf16) {
  for (uint32_t first = 0; first < 1 << 16; first += 8 * kProbeThreads) {
    std::vector<uint32_t> in;
    for (int i = 0; i < kProbeThreads; ++i) in.push_back(first + i);
    const auto out = Run<float>(Probe::kWiden, in, kProbeThreads);
    for (int i = 0; i < kProbeThreads; ++i) {
      const float wanted = Bf16ToFloat(static_cast<uint16_t>(in[i]));
      ASSERT_EQ(std::memcmp(&out[i], &wanted, 4), 0) << in[i];
    }
  }
}

TEST_P(DeviceProbesTest, WidensEveryE4m3) {
  std::vector<uint32_t> in;
  for (uint32_t i = 0; i < kProbeThreads; ++i) {
    in.push_back((i * 0x01030507u) ^ 0xff00ff00u);
  }
  std::set<uint8_t> seen;
  const auto out = Run<uint32_t>(Probe::kWidenE4m3, in, 2 * kProbeThreads);
  for (int i = 0; i < kProbeThreads; ++i) {
    for (int byte = 0; byte < 4; ++byte) {
      const auto code = static_cast<uint8_t>(in[i] >> 8 * byte);
      const uint32_t pair = out[2 * i + (byte % 2 == 0 ? 1 : 0)];
      const auto bits = static_cast<uint16_t>(pair >> byte / 2 * 16);
      ASSERT_EQ(bits, FloatToBf16(static_cast<float>(E4m3Value(code))));
      seen.insert(code);
    }
  }
  EXPECT_EQ(seen.size(), 256u);
}

TEST_P(DeviceProbesTest, FunctionsAreNear) {
  std::vector<float> in = Random(2).Normals(kProbeThreads, 30);
  for (float& x : in) x = std::min(std::max(x, -100.0f), 100.0f);
  in[0] = 0;
  in[1] = -INFINITY;
  const auto out = Run<float>(Probe::kFunctions, in, 2 * kProbeThreads);
  EXPECT_EQ(out[0], 1);
  EXPECT_EQ(out[2], 0);
  for (int i = 2; i < kProbeThreads; ++i) {
    const double x = in[i], exp = std::exp2(x);
    EXPECT_NEAR(out[2 * i], exp, exp * 0x1p-21);
    if (x <= 0) continue;
    EXPECT_NEAR(out[2 * i + 1] * std::sqrt(x), 1, 0x1p-21);
  }
}

TEST_P(DeviceProbesTest, LoadsMatricesFromRowsAnywhere) {
  Random random(3);
  std::vector<uint32_t> in(kProbeShared / 4 + 32);
  for (int turn = 0; turn < 8; ++turn) {
    for (uint32_t& word : in)
      word = static_cast<uint32_t>(random.Below(1u << 31));
    for (int lane = 0; lane < 32; ++lane) {
      in[kProbeShared / 4 + lane] =
          static_cast<uint32_t>(random.Below(kProbeShared / 16) * 16);
    }
    const auto half = [&](int lane_of_row, int column) {
      uint16_t value;
      std::memcpy(&value,
                  reinterpret_cast<const unsigned char*>(in.data()) +
                      in[kProbeShared / 4 + lane_of_row] + 2 * column,
                  2);
      return value;
    };
    const auto plain = Run<uint32_t>(Probe::kLoad, in, 128);
    const auto turned = Run<uint32_t>(Probe::kLoadTransposed, in, 128);
    for (int lane = 0; lane < 32; ++lane) {
      for (int m = 0; m < 4; ++m) {
        const int g = lane / 4, t = lane % 4;
        const uint32_t own =
            half(8 * m + g, 2 * t) | uint32_t{half(8 * m + g, 2 * t + 1)} << 16;
        const uint32_t other =
            half(8 * m + 2 * t, g) | uint32_t{half(8 * m + 2 * t + 1, g)} << 16;
        ASSERT_EQ(plain[4 * lane + m], own);
        ASSERT_EQ(turned[4 * lane + m], other);
      }
    }
  }
}

// --- products

using Left = std::array<std::array<float, 16>, 16>;  // [16][k]
using Right = std::array<std::array<float, 16>, 8>;  // [8][k]
using Sums = std::array<std::array<float, 8>, 16>;

std::vector<WarpProbeInput> LanesOf(const Left& a, const Right& b,
                                    const Sums& sums) {
  const auto pair = [](float low, float high) {
    return FloatToBf16(low) | uint32_t{FloatToBf16(high)} << 16;
  };
  WarpProbeInput in;
  for (int lane = 0; lane < 32; ++lane) {
    const int g = lane / 4, t = lane % 4;
    for (int q = 0; q < 4; ++q) {
      const int row = g + 8 * (q % 2), k = 2 * t + 8 * (q / 2);
      in.a[lane][q] = pair(a[row][k], a[row][k + 1]);
      in.sums[lane][q] = sums[g + 8 * (q / 2)][2 * t + q % 2];
    }
    for (int q = 0; q < 2; ++q) {
      in.b[lane][q] = pair(b[g][2 * t + 8 * q], b[g][2 * t + 8 * q + 1]);
    }
  }
  return {in};
}
Sums SumsOf(const std::vector<float>& lanes) {
  Sums sums;
  for (int lane = 0; lane < 32; ++lane) {
    for (int q = 0; q < 4; ++q) {
      sums[lane / 4 + 8 * (q / 2)][2 * (lane % 4) + q % 2] =
          lanes[4 * lane + q];
    }
  }
  return sums;
}
template <typename Matrix>
void Fill(Matrix& matrix, const std::function<float()>& value) {
  for (auto& row : matrix) {
    for (float& x : row) x = value();
  }
}

TEST_P(DeviceProbesTest, WarpProductsOfWholeNumbersAreExact) {
  Random random(4);
  const auto whole = [&] { return static_cast<float>(random.Below(41)) - 20; };
  Left a;
  Right b;
  Sums sums;
  Fill(a, whole);
  Fill(b, whole);
  Fill(sums, whole);
  const Sums got =
      SumsOf(Run<float>(Probe::kWarpMultiply, LanesOf(a, b, sums), 128));
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 8; ++j) {
      float wanted = sums[i][j];
      for (int k = 0; k < 16; ++k) wanted += a[i][k] * b[j][k];
      ASSERT_EQ(got[i][j], wanted) << i << ", " << j;
    }
  }
}

TEST_P(DeviceProbesTest,
       AnElementOfAWarpsProductDependsOnItsRowAndColumnAlone) {
  Random random(5);
  const auto normal = [&] { return random.Normal(); };
  Left a;
  Right b;
  Sums sums;
  Fill(a, normal);
  Fill(b, normal);
  Fill(sums, normal);
  const Sums all =
      SumsOf(Run<float>(Probe::kWarpMultiply, LanesOf(a, b, sums), 128));
  for (int kept = 0; kept < 16; ++kept) {
    Left others;
    Right right;
    Sums start;
    Fill(others, normal);
    Fill(right, normal);
    Fill(start, normal);
    others[kept] = a[kept];
    right[kept % 8] = b[kept % 8];
    start[kept][kept % 8] = sums[kept][kept % 8];
    const Sums got = SumsOf(
        Run<float>(Probe::kWarpMultiply, LanesOf(others, right, start), 128));
    EXPECT_EQ(got[kept][kept % 8], all[kept][kept % 8]);
  }
}

// Zero products leave a sum as it is.
TEST_P(DeviceProbesTest, ZeroProductsChangeNoBit) {
  Random random(6);
  Sums sums;
  Fill(sums, [&] { return random.Normal(); });
  const Sums got = SumsOf(
      Run<float>(Probe::kWarpMultiply, LanesOf(Left{}, Right{}, sums), 128));
  EXPECT_EQ(got, sums);
}

// Returns a tile of 64 rows, and one of `rows`, as TilePlace says.
std::vector<uint16_t> TilesOf(const std::vector<uint16_t>& a,
                              const std::vector<uint16_t>& b, int rows) {
  std::vector<uint16_t> tiles((64 + rows) * kTileColumns);
  for (int row = 0; row < 64 + rows; ++row) {
    for (int k = 0; k < kTileColumns; ++k) {
      const uint32_t place = row < 64
                                 ? TilePlace(row, k)
                                 : 64 * kTileRowBytes + TilePlace(row - 64, k);
      tiles[place / 2] = row < 64 ? a[row * kTileColumns + k]
                                  : b[(row - 64) * kTileColumns + k];
    }
  }
  return tiles;
}
constexpr std::array kGroupProbes = {
    std::pair{Probe::kGroupMultiply16, 16},
    std::pair{Probe::kGroupMultiply32, 32},
    std::pair{Probe::kGroupMultiply64, 64},
    std::pair{Probe::kGroupMultiply80, 80},
    std::pair{Probe::kGroupMultiply128, 128},
    std::pair{Probe::kGroupMultiply144, 144},
    std::pair{Probe::kGroupMultiply256, 256},
    std::pair{Probe::kGroupMultiplyHeld16, 16},
    std::pair{Probe::kGroupMultiplyHeld32, 32},
    std::pair{Probe::kGroupMultiplyHeld64, 64},
    std::pair{Probe::kGroupMultiplyHeld80, 80},
    std::pair{Probe::kGroupMultiplyHeld128, 128},
    std::pair{Probe::kGroupMultiplyHeld144, 144},
    std::pair{Probe::kGroupMultiplyHeld256, 256}};

TEST_P(DeviceProbesTest, GroupProductsOfWholeNumbersAreExact) {
  Random random(7);
  std::vector<uint16_t> a(64 * kTileColumns), b(256 * kTileColumns);
  for (uint16_t& x : a)
    x = FloatToBf16(static_cast<float>(random.Below(41) - 20));
  for (uint16_t& x : b)
    x = FloatToBf16(static_cast<float>(random.Below(41) - 20));
  for (const auto& [probe, rows] : kGroupProbes) {
    const auto got = Run<float>(probe, TilesOf(a, b, rows), 64 * rows);
    for (int i = 0; i < 64; ++i) {
      for (int j = 0; j < rows; ++j) {
        float wanted = 0;
        for (int k = 0; k < kTileColumns; ++k) {
          wanted += Bf16ToFloat(a[i * kTileColumns + k]) *
                    Bf16ToFloat(b[j * kTileColumns + k]);
        }
        ASSERT_EQ(got[i * rows + j], wanted) << rows << ": " << i << ", " << j;
      }
    }
  }
}

TEST_P(DeviceProbesTest, AllWidthsOfGroupProductsGiveTheSameBits) {
  Random random(8);
  const std::vector<uint16_t> a = random.Bf16s(64 * kTileColumns);
  const std::vector<uint16_t> b = random.Bf16s(256 * kTileColumns);
  const auto widest =
      Run<float>(Probe::kGroupMultiply256, TilesOf(a, b, 256), 64 * 256);
  for (const auto& [probe, rows] : kGroupProbes) {
    const auto got = Run<float>(probe, TilesOf(a, b, rows), 64 * rows);
    for (int i = 0; i < 64; ++i) {
      for (int j = 0; j < rows; ++j) {
        ASSERT_EQ(got[i * rows + j], widest[i * 256 + j]) << rows;
      }
    }
  }
}

TEST_P(DeviceProbesTest,
       AnElementOfAGroupsProductDependsOnItsRowAndColumnAlone) {
  Random random(9);
  const std::vector<uint16_t> a = random.Bf16s(64 * kTileColumns);
  const std::vector<uint16_t> b = random.Bf16s(16 * kTileColumns);
  const auto all =
      Run<float>(Probe::kGroupMultiply16, TilesOf(a, b, 16), 64 * 16);
  for (int kept = 0; kept < 16; ++kept) {
    std::vector<uint16_t> left = random.Bf16s(64 * kTileColumns);
    std::vector<uint16_t> right = random.Bf16s(16 * kTileColumns);
    const int row = 4 * kept + 1;
    std::copy_n(&a[row * kTileColumns], kTileColumns,
                &left[row * kTileColumns]);
    std::copy_n(&b[kept * kTileColumns], kTileColumns,
                &right[kept * kTileColumns]);
    const auto got =
        Run<float>(Probe::kGroupMultiply16, TilesOf(left, right, 16), 64 * 16);
    EXPECT_EQ(got[row * 16 + kept], all[row * 16 + kept]);
  }
}

// --- copies and launches

TEST_P(DeviceProbesTest, WarpgroupsTakeRegistersThatOthersLeave) {
  std::vector<float> in, wanted;
  for (int i = 0; i < kProbeGroups * 128; ++i) {
    const auto number = static_cast<float>(i);
    in.push_back(number);
    wanted.push_back(i / 128 + 1 == kProbeGroups
                         ? number
                         : kProbeHeld * (number + (kProbeHeld - 1) / 2.0f));
  }
  EXPECT_EQ(Run<float>(Probe::kRegisters, in, in.size()), wanted);
}

TEST_P(DeviceProbesTest, BarriersCountPhasesArrivalsAndBytes) {
  std::vector<uint32_t> in;
  for (int i = 0; i < kProbePhases * kProbeThreads; ++i)
    in.push_back(3 * i + 1);
  EXPECT_EQ(Run<uint32_t>(Probe::kPhases, in, in.size()), in);
}

TEST_P(DeviceProbesTest, DependentLaunchesSeeWhatWasWritten) {
  const auto out = Run<uint32_t>(Probe::kDependent, std::vector<uint32_t>(1),
                                 kProbeBlocks * kProbeThreads);
  EXPECT_EQ(out, std::vector<uint32_t>(out.size(), kProbeDependents));
}

// On a GPU this looks at what the emulation does not show: the order of memory
// between blocks, and between their writes and copies.
TEST_P(DeviceProbesTest, BlocksHandOverByCounters) {
  const uint32_t rounds = GetParam() == "emulated" ? 12 : 20'000;
  std::vector<HandOverProbe> probe(1);
  probe[0].rounds = rounds;
  const HandOverProbe out =
      Run<HandOverProbe>(Probe::kHandOver, std::vector<uint32_t>(1), probe)[0];
  EXPECT_EQ(out.wrong, 0u);
  EXPECT_EQ(out.done, rounds * kProbeResidents);
  EXPECT_EQ(out.left, static_cast<uint32_t>(kProbeResidents));
  EXPECT_EQ(out.last, 1u);
}

// Numbers of the host go to the device and back, by kernels: the host looks at
// them as soon as it sees the flag.
TEST_P(DeviceProbesTest, TheHostSeesAFlagAfterAllBeforeIt) {
  constexpr uint32_t kWords = kMaxMailBytes / 4;
  const uint32_t rounds = GetParam() == "emulated" ? 12 : 20'000;
  ComputeDevice& device = Device();
  const auto in_host = [&](int64_t size) {
    auto array = DeviceArray<uint32_t>::Make(device, size, Memory::kHost);
    ESPALIER_CHECK(array.ok());
    return *std::move(array);
  };
  const auto bytes = [](const DeviceArray<uint32_t>& array) {
    return reinterpret_cast<unsigned char*>(array.data());
  };
  const auto from = in_host(kWords), to = in_host(kWords), flag = in_host(1);
  const auto there = NanArray<uint32_t>(device, kWords);
  *flag.data() = 0;
  uint32_t wrong = 0;
  for (uint32_t round = 1; round <= rounds; ++round) {
    for (uint32_t i = 0; i < kWords; ++i) from.data()[i] = round << 16 ^ i;
    device.Launch(MailArgs{
        .to = bytes(there), .from = bytes(from), .bytes = kMaxMailBytes});
    device.Launch(MailArgs{.to = bytes(to),
                           .from = bytes(there),
                           .bytes = kMaxMailBytes,
                           .flag = flag.data(),
                           .number = round});
    const int64_t event = device.Record();
    ASSERT_TRUE(device.WaitForFlag(flag.data(), round, event).ok());
    for (uint32_t i = 0; i < kWords; ++i) {
      wrong += to.data()[i] != (round << 16 ^ i);
    }
  }
  EXPECT_EQ(wrong, 0u);
}

}  // namespace
}  // namespace espalier::cuda
