// What is ranked and gathered of a row has the same bits whatever else is in
// the launch, and in whatever order its threads run.
#include <vector>

#include "tests/common/cuda/device_testing.h"

namespace espalier::cuda {
namespace {

class RowBitsTest : public DeviceTest {
 protected:
  static constexpr int kRows = 6, kVocab = 2240, kTop = 9;

  LogitBlock Block(const DeviceArray<float>& logits) const {
    return {logits.data(), static_cast<int>(logits.size() / kVocab), kVocab,
            kVocab};
  }
  std::vector<float> RowOf(int row) const {
    return {logits_.begin() + row * kVocab,
            logits_.begin() + (row + 1) * kVocab};
  }

  std::vector<float> logits_ = Random(16).Normals(kRows * kVocab, 3);
};
INSTANTIATE_FOR_DEVICES(RowBitsTest);

TEST_P(RowBitsTest, OfRanks) {
  struct Ranked {
    std::vector<RankResult> results;
    std::vector<LogitOfToken> top;
  };
  const auto rank = [this](ComputeDevice& device,
                           const std::vector<float>& logits) {
    const auto values = ArrayOf(device, logits);
    const LogitBlock block = Block(values);
    const auto results = NanArray<RankResult>(device, block.rows);
    const auto top = NanArray<LogitOfToken>(device, block.rows * kTop);
    const auto parts = NanArray<RankPart>(device, block.rows * kMaxRankParts);
    device.Launch(RankArgs{.logits = block,
                           .top_k = kTop,
                           .parts = parts.data(),
                           .results = results.data(),
                           .top = top.data()});
    return Ranked{ValuesOf(device, results), ValuesOf(device, top)};
  };
  const Ranked all = rank(Device(1), logits_);
  for (uint64_t seed = 2; seed < 5; ++seed) {
    EXPECT_TRUE(SameBits(rank(Device(seed), logits_).top, all.top));
  }
  for (int row = 0; row < kRows; ++row) {
    const Ranked alone = rank(Device(row), RowOf(row));
    EXPECT_EQ(alone.results[0].largest, all.results[row].largest);
    EXPECT_EQ(alone.results[0].mass, all.results[row].mass);
    EXPECT_TRUE(SameBits(alone.top, {all.top.begin() + row * kTop,
                                     all.top.begin() + (row + 1) * kTop}));
  }
}

TEST_P(RowBitsTest, OfGathers) {
  const auto gather = [this](ComputeDevice& device,
                             const std::vector<float>& logits) {
    const auto values = ArrayOf(device, logits);
    const LogitBlock block = Block(values);
    const auto support = ArrayOf(device, std::vector<int32_t>{3, 64, 2239});
    const auto rows = ArrayOf(
        device, std::vector<GatherRow>(
                    block.rows, {.temperature = 0.7f, .support_end = 3}));
    const auto results = NanArray<GatherResult>(device, block.rows);
    const auto inside = NanArray<float>(device, 3);
    device.Launch(GatherArgs{.logits = block,
                             .rows = rows.data(),
                             .support = support.data(),
                             .results = results.data(),
                             .support_logits = inside.data()});
    return ValuesOf(device, results);
  };
  const auto same = [](const GatherResult& a, const GatherResult& b) {
    return a.largest == b.largest && a.largest_outside == b.largest_outside &&
           a.mass_outside == b.mass_outside;
  };
  const std::vector<GatherResult> all = gather(Device(1), logits_);
  for (int row = 0; row < kRows; ++row) {
    EXPECT_TRUE(same(gather(Device(row), RowOf(row))[0], all[row])) << row;
    EXPECT_TRUE(same(gather(Device(row), logits_)[row], all[row])) << row;
  }
}

}  // namespace
}  // namespace espalier::cuda
